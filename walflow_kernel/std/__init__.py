"""What `intrinsic fn` of the shipped modules stands for, one file a module. Each comes by an entry point of the group
`walflow.functions`, as another distribution's would."""
