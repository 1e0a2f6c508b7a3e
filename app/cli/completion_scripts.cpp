// Scripts that the shells read: `ft completion bash`, zsh or fish. They contain no commands of ft: they ask
// ft each time.
#include "app/cli/completion_scripts.h"

namespace ft {
namespace {

// Splits words at blanks. bash itself also splits at "=" and completes only the part after it.
constexpr const char* kBash = R"(# Completion of ft in bash: source <(ft completion bash)
_ft() {
  local line=${COMP_LINE:0:COMP_POINT} words=() typed='' head='' word
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] || { typed=${words[-1]}; unset 'words[-1]'; }
  [[ $typed != *=* || $COMP_WORDBREAKS != *=* ]] || head=${typed%%=*}=
  COMPREPLY=()
  while IFS= read -r word; do
    case $word in
      :*)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -A "${word#:}" -- "${typed#*=}")
        ;;
      *) COMPREPLY+=("${word#"$head"}") ;;
    esac
  done < <("${words[0]}" --complete "${words[@]:1}" "$typed" 2>/dev/null)
  [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *[=.] ]] || compopt -o nospace
}
complete -F _ft ft
)";

constexpr const char* kZsh = R"script(#compdef ft
# Completion of ft in zsh: put this as _ft into a folder of $fpath.
_ft() {
  local word
  local -a whole open
  for word in ${(f)"$(${(Q)words[1]} --complete ${(Q)words[2,CURRENT-1]} "${(Q)PREFIX}" 2>/dev/null)"}; do
    case $word in
      :file) [[ $PREFIX == *=* ]] && compset -P '*='; _files ;;
      :directory) [[ $PREFIX == *=* ]] && compset -P '*='; _files -/ ;;
      *[=.]) open+=("$word") ;;
      *) whole+=("$word") ;;
    esac
  done
  (( $#whole )) && compadd -- "${whole[@]}"
  (( $#open )) && compadd -S '' -- "${open[@]}"
  return 0
}
if [[ $funcstack[1] == _ft ]]; then _ft "$@"; else compdef _ft ft; fi
)script";

constexpr const char* kFish = R"(# Completion of ft in fish: ft completion fish | source
function __ft_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    for word in ($words[1] --complete $words[2..-1] "$typed" 2>/dev/null)
        switch $word
            case :file
                set -l head (string match -r '^.*=' -- $typed)
                for path in (__fish_complete_path (string replace -r '^.*=' '' -- $typed))
                    echo "$head$path"
                end
            case :directory
                __fish_complete_directories $typed
            case '*'
                echo $word
        end
    end
end
complete -c ft -f -a '(__ft_complete)'
)";

}  // namespace

const char* completion_script(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace ft
