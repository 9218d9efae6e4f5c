"""The functions behind `intrinsic fn` in the shipped modules, one file for each module. They come by entry points of
the group `walflow.functions`, as those of another distribution would."""
