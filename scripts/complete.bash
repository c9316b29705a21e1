# Completion of onceonly for bash. In ~/.bashrc:  source <(onceonly completion bash)
# shellcheck shell=bash

_onceonly() {
	local program=${COMP_WORDS[0]} words=() at=() i word trimmed
	type -P -- "$program" >/dev/null || program=onceonly
	# Bash parts words at = and : too. Those between which there is no blank are one.
	local rest=${COMP_LINE:0:COMP_POINT}
	rest=${rest#*"${COMP_WORDS[0]}"}
	for ((i = 1; i <= COMP_CWORD; i++)); do
		trimmed=${rest#"${rest%%[![:blank:]]*}"}
		word=${COMP_WORDS[i]}
		if ((i == COMP_CWORD)); then word=$trimmed; fi # no further than the cursor
		if [[ $trimmed != "$rest" ]]; then
			words+=("$word") at+=("$i")
		else
			words[${#words[@]} - 1]+=$word
		fi
		rest=${trimmed#"$word"}
	done
	((${#words[@]})) || return
	local last=$((${#words[@]} - 1))
	local cur=${words[last]} quoted=''
	case $cur in
	[\'\"]*) quoted=1 cur=${cur:1} ;;
	*) cur=${cur//\\/} ;;
	esac
	words[last]=$cur
	# What stands before the last = or : is not replaced, where bash parts words there.
	local keep='' candidate kind
	for word in = :; do
		if [[ $COMP_WORDBREAKS == *"$word"* && $cur == *"$word"* && -z $quoted ]]; then
			candidate=${cur%"$word"*}$word
			if ((${#candidate} > ${#keep})); then keep=$candidate; fi
		fi
	done
	COMPREPLY=()
	{
		read -r kind
		case $kind in
		words)
			while IFS= read -r candidate; do
				candidate=${candidate#"$keep"}
				if [[ -z $quoted ]]; then printf -v candidate %q "$candidate"; fi
				COMPREPLY+=("$candidate")
			done
			;;
		files) _onceonly_files "${cur#"$keep"}" ;;
		command*)
			i=${kind#command }
			if declare -F _comp_command_offset >/dev/null; then
				_comp_command_offset "${at[i]}"
			elif declare -F _command_offset >/dev/null; then
				_command_offset "${at[i]}"
			else
				_onceonly_files "$cur"
				if ((i == last)); then
					while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(compgen -c -- "$cur")
				fi
			fi
			;;
		esac
	} < <("$program" complete "${words[@]}" 2>/dev/null)
}

_onceonly_files() {
	local name
	compopt -o filenames 2>/dev/null
	while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -f -- "$1")
}

complete -F _onceonly onceonly
