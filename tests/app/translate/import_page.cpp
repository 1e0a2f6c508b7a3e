#include "tests/app/translate/import_page.h"

#include <algorithm>
#include <vector>

#include "app/translate/list.h"
#include "app/translate/programs.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using namespace translate;

constexpr const char* kBegin = R"(# Files of other programs

`ft import FILE` makes a run.json of a file of axolotl, LLaMA-Factory, TRL or torchtune, and
`ft import -- COMMAND` of a command line of TRL, DeepSpeed-Chat or run_translation.py:

```
$ ft import axolotl.yml --output run.json
base_model NousResearch/Llama-3.2-1B  other name  model.model_name_or_path
lora_r 32                             other name  lora.r
gradient_accumulation_steps 4         same        training.gradient_accumulation_steps
load_in_8bit false                    no effect   it is off
relora                                not there   ft has no such method
save_total_limit 4                    default     checkpointing.save_total_limit
...
axolotl: 12 same, 14 other name, 3 default, 2 no effect, 1 not there
The run differs from the original where a key is not there: relora
next: ft train --config run.json
$ ft import --output run.json -- trl sft --model_name_or_path Qwen/Qwen3-0.6B --dataset_name trl-lib/Capybara
```

run.json goes to the file of `--output` (`--overwrite` replaces it), else to stdout, and a verdict on each key
to stderr:

| verdict | the key |
|---|---|
| same | sets the setting of the same name |
| other name | sets settings of other names, or with another value that means the same |
| default | is not given; the program's default is not ft's and is written out: the run does the same |
| no effect | changes nothing in ft, for the reason that is named |
| not there | changes the run, and ft does not have it: run.json is made without it |

- With `--strict` a key that is not there ends the command with exit code 2, and run.json is not written.
- A run that ft does not do at all (pictures, another objective, a file that trains nothing) is refused,
  with the reason and exit code 2. So is a value of the wrong kind, with its line.
- `--json` prints one object: `program`, `config`, `keys` (each with `key`, `line`, `value`, `verdict`, `to`,
  `why`), `warnings` and `command`.
- The file's keys show the program. `--from NAME` says it, for a file whose keys several programs have.
- Values are checked by ft's own reader. A setting that it refuses is taken out again, and its key is not
  there.
- Relative names stay as they are: put run.json into the folder in which the program would have run.
- YAML is read as PyYAML reads it, up to 1 MiB, 32 levels and 5,000 values, repeats by aliases included. Tags
  that make Python objects are refused.
- Commands may begin with `llamafactory-cli train`, `axolotl train`, `tune run`, `trl`, `deepspeed`,
  `torchrun`, `accelerate launch` or `python`, and with variables of the environment.

[bench/results/import.md](../bench/results/import.md) shows how many of the programs' own examples are
converted. DeepSpeed's JSON needs no import: [deepspeed.md](deepspeed.md).

)";

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, "\\");
  return text;
}

// Returns a row's setting as the page shows it; empty: the key sets none.
std::string settings(const Flag& flag) {
  const std::string to = flag.to;
  if (to.empty() || flag.fate == Fate::no_effect || flag.fate == Fate::refused ||
      flag.fate == Fate::refused_on || flag.fate == Fate::refused_but)
    return "";
  return "`" + to + "`";
}

std::string verdict(const Flag& flag) {
  const std::string name = flag.name, to = flag.to, last = name.substr(name.rfind('.') + 1);
  switch (flag.fate) {
    case Fate::same:
    case Fate::own:
      if (to.empty()) return "by its value";
      return ("." + to).ends_with("." + last) ? "same" : "other name";
    case Fate::no_effect:
      return "no effect";
    case Fate::refused:
      return "not there";
    case Fate::refused_on:
      return "not there, if it is on";
    case Fate::refused_but:
      return str("not there, unless it is ", to);
  }
  return "";
}

// Keys that share verdict, settings and reason stand in one line.
std::string key_table(const Table& table) {
  struct Line {
    std::string keys, rest;
  };
  std::vector<Line> lines;
  for (const Flag* flag : table) {
    const std::string to = settings(*flag), why = flag->why;
    const std::string rest =
        str(" | ", verdict(*flag), " | ", to, to.empty() || why.empty() ? "" : ": ", cell(why), " |\n");
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.rest == rest; });
    const std::string key = str("`", flag->name, "`");
    if (same != lines.end() && to.empty())
      same->keys += ", " + key;
    else
      lines.push_back({key, rest});
  }
  std::string out = "| key | verdict | setting, or reason |\n|---|---|---|\n";
  for (const Line& line : lines) out += "| " + line.keys + line.rest;
  return out + "\n";
}

std::string default_table(std::span<const Default> defaults) {
  if (defaults.empty()) return "";
  std::string out = "Defaults that are written out:\n\n| key | setting | value |\n|---|---|---|\n";
  for (const Default& d : defaults) out += str("| `", d.name, "` | `", d.to, "` | `", d.value, "` |\n");
  return out + "\n";
}

// Returns the text in lines of at most 118 columns.
std::string wrapped(const std::string& text) {
  std::string out;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const bool full = column > 0 && column + 1 + word.size() > 118;
    out += (column == 0 ? "" : full ? "\n" : " ") + word;
    column = (full || column == 0 ? 0 : column + 1) + word.size();
    begin = end + 1;
  }
  return out + "\n\n";
}

// Returns the keys of a program that are not transformers' TrainingArguments, nor in another section.
Table own_keys(const Program& program, const Table& shared) {
  Table own;
  for (const Flag* flag : program.keys())
    if (std::find(shared.begin(), shared.end(), flag) == shared.end()) own.push_back(flag);
  return own;
}

}  // namespace

std::string import_page() {
  std::string out = kBegin;
  Table shared = joined({training_arguments()});
  for (const Program* program : kPrograms) {
    const Table own = own_keys(*program, shared);
    out += str("## ", program->title, "\n\n", wrapped(str("`--from ", program->name, "`. ", program->about)),
               default_table(program->defaults));
    if (!own.empty()) out += key_table(own);
    const std::string name = program->name;
    if (name.starts_with("trl-") || name.starts_with("deepspeed-chat"))
      shared.insert(shared.end(), own.begin(), own.end());  // the next trainer's table omits them
  }
  out +=
      "## transformers: TrainingArguments\n\n" +
      wrapped(
          "LLaMA-Factory, TRL and run_translation.py take these too, unless their own tables have the key.") +
      default_table(training_defaults()) + key_table(joined({training_arguments()}));
  out.pop_back();
  return out;
}

}  // namespace ft
