#compdef onceonly
# Completion of onceonly for zsh. In ~/.zshrc, after compinit:  source <(onceonly completion zsh)

_onceonly() {
	local -a said
	said=("${(@f)$(onceonly complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
	local kind=$said[1]
	shift said
	case $kind in
	words) compadd -a said ;;
	files) _files ;;
	command*)
		local n=$((${kind#command } + 1))
		shift $n words
		((CURRENT -= n))
		_normal
		;;
	esac
}

if [[ $funcstack[1] == _onceonly ]]; then
	_onceonly "$@"
else
	compdef _onceonly onceonly
fi
