
#compdef walflow

_walflow_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _WALFLOW_COMPLETE=complete_zsh walflow)
}

compdef _walflow_completion walflow

