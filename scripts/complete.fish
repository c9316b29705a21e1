# Completion of onceonly for fish. In ~/.config/fish/config.fish:  onceonly completion fish | source

function __onceonly_complete
    set -l words (commandline -opc)
    set -l typed (string unescape -- (commandline -ct); or commandline -ct)
    set -l said (onceonly complete $words[2..-1] "$typed" 2>/dev/null)
    switch "$said[1]"
        case words
            printf '%s\n' $said[2..-1]
        case files
            __fish_complete_path "$typed"
        case 'command *'
            set -l n (string split ' ' $said[1])[2]
            set -a words "$typed"
            __fish_complete_subcommand --commandline $words[(math $n + 2)..-1]
    end
end

complete -c onceonly -f -a '(__onceonly_complete)'
