#include "app/translate/reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/translate/list.h"
#include "app/translate/programs.h"
#include "app/translate/yaml.h"
#include "engine/core/suggest.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"

namespace ft::translate {
namespace {

using Words = std::vector<std::string>;

[[noreturn]] void refuse(const std::string& what) { throw UserError(Exit::config, what); }

std::string listed(const std::vector<const Program*>& programs) {
  std::string all;
  for (const Program* p : programs) all += (all.empty() ? "" : ", ") + std::string(p->name);
  return all;
}

const Program& program_of_file(const SettingsText& file, const std::string& from) {
  if (!from.empty()) {
    const Program& program = program_named(from);
    if (!program.fits)
      refuse(str("--from ", from, ": it has command lines and no files: ft import -- COMMAND"));
    return program;
  }
  std::vector<const Program*> fitting;
  for (const Program* p : kPrograms)
    if (p->fits && p->fits(file.value)) fitting.push_back(p);
  if (fitting.size() == 1) return *fitting[0];
  if (fitting.size() > 1)
    refuse(
        str(file.name, ": its keys are those of several programs: ", listed(fitting), "; add --from NAME"));
  std::string marks;
  for (const Program* p : {&kAxolotl, &kLlamaFactory, &kTrlSft, &kTorchtune})
    marks += str("\n  ", p == &kTrlSft ? "trl-..." : p->name, ": ", p->marks);
  refuse(str(file.name, ": its keys are of no program that ft knows; these show one:", marks,
             "\nor add --from NAME, and each key gets its verdict"));
}

SettingsText parsed(const std::string& path, Draft& draft) {
  YamlFile file = parse_yaml(read_file(path, std::int64_t{1} << 20, Exit::config), path);
  draft.warnings.insert(draft.warnings.end(), file.notes.begin(), file.notes.end());
  return std::move(file.text);
}

// Reads the keys of a file, and flags that replace some of them.
const Program& finish_file(SettingsText file, const Program& program, Words flags, Draft& draft) {
  if (program.prepare) program.prepare(file);
  Draft typed;
  const Table table = program.keys();
  const Given given_flags = read_flags(std::move(flags), table, program.title, typed);
  for (const Row& row : typed.rows) file.value.erase(row.flag.substr(2));
  Given given = read_keys(file, table, program.title, draft);
  given.take(given_flags);
  for (const Row& row : typed.rows) {
    draft.rows.push_back(row);
    if (const auto flag =
            std::find_if(table.begin(), table.end(),
                         [&](const Flag* f) { return "--" + std::string(f->name) == row.flag; });
        flag != table.end() && (*flag)->fate == Fate::same)
      draft.set((*flag)->to, row.value);
  }
  program.finish(file, given, draft);
  draft.otherwise(program.defaults);
  return program;
}

// Takes "--config FILE" or "--config=FILE" out of the words; "": there is none.
std::string take_config(Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--config=")) {
      const std::string file = words[i].substr(9);
      words.erase(words.begin() + std::ptrdiff_t(i));
      return file;
    }
    if (words[i] != "--config" || i + 1 == words.size()) continue;
    const std::string file = words[i + 1];
    words.erase(words.begin() + std::ptrdiff_t(i), words.begin() + std::ptrdiff_t(i) + 2);
    return file;
  }
  return "";
}

// llamafactory-cli train FILE key=value, and tune run [LAUNCHER'S FLAGS] RECIPE --config FILE key=value.
const Program& read_with_overrides(const Program& program, const std::string& path, const Words& words,
                                   Draft& draft) {
  if (path.empty() || !path_exists(path))
    refuse(str(program.title, ": ",
               path.empty() ? "the command names no file" : printable(path) + " is no file here",
               "; give the YAML file of the run"));
  SettingsText file = parsed(path, draft);
  for (const std::string& word : words) {
    if (word.find('=') == word.npos || word.starts_with("-"))
      refuse(str(printable(word), ": after the file come only key=value"));
    override_setting(file, word);
  }
  return finish_file(std::move(file), program, {}, draft);
}

const Program& read_llama_factory(Words words, Draft& draft) {
  if (words.empty() || words[0] != "train") refuse("llamafactory-cli: only its command train trains");
  words.erase(words.begin());
  if (words.empty() || words[0].starts_with("--"))
    return finish_file({.value = Json::object(), .lines = {}, .name = ""}, kLlamaFactory, words, draft);
  const std::string path = words[0];
  words.erase(words.begin());
  return read_with_overrides(kLlamaFactory, path, words, draft);
}

const Program& read_tune(Words words, Draft& draft) {
  if (words.empty() || words[0] != "run") refuse("tune: only its command run trains");
  words.erase(words.begin());
  const std::string path = take_config(words);
  const auto recipe = std::find_if(words.begin(), words.end(), [](const std::string& w) {
    return !w.starts_with("-") && w.find('=') == w.npos && w.find_first_not_of("0123456789") != w.npos;
  });
  Words before(words.begin(), recipe);
  if (recipe != words.end()) words.erase(words.begin(), recipe + 1);
  if (!before.empty()) {  // flags of torchrun
    before.insert(before.begin(), "torchrun");
    before.emplace_back("recipe.py");
    take_launcher(before, draft);
    draft.set("zero_optimization.stage", 3);
  }
  return read_with_overrides(kTorchtune, path, words, draft);
}

const Program& read_axolotl(Words words, Draft& draft) {
  if (words.size() < 2 || words[0] != "train") refuse("axolotl: give axolotl train FILE");
  const std::string path = words[1];
  words.erase(words.begin(), words.begin() + 2);
  return finish_file(parsed(path, draft), kAxolotl, words, draft);
}

// Reads "trl sft --config FILE --flag value".
const Program& read_flags_of(const Program& program, Words words, Draft& draft) {
  const std::string config = program.fits ? take_config(words) : "";
  if (!config.empty()) return finish_file(parsed(config, draft), program, words, draft);
  const Given given = read_flags(std::move(words), program.keys(), program.title, draft);
  program.finish({}, given, draft);
  draft.otherwise(program.defaults);
  return program;
}

// Returns the program that a script is. main.py without its folder is told by its flags.
const Program& program_of_script(const std::string& script, const Words& flags, Draft& draft) {
  for (const Program* p : kPrograms)
    if (p->runs && p->runs(script)) {
      if (p != &kChatSft || script.find("step1") != script.npos) return *p;
      const auto has = [&](const char* beginning) {
        return std::any_of(flags.begin(), flags.end(),
                           [&](const std::string& w) { return w.starts_with(beginning); });
      };
      if (has("--actor_model")) return kChatPpo;
      if (has("--num_padding_at_beginning")) return kChatReward;
      draft.warnings.emplace_back(
          "main.py is taken for DeepSpeed-Chat's step 1; for step 2 give its folder too: "
          "step2_dpo_finetuning/main.py");
      return *p;
    }
  std::vector<const Program*> known;
  for (const Program* p : kPrograms)
    if (p->runs) known.push_back(p);
  refuse(str(printable(script), " is not known; ft knows ", listed(known)));
}

}  // namespace

const Program& program_named(const std::string& name) {
  std::vector<std::string> all;
  for (const Program* p : kPrograms) {
    if (name == p->name) return *p;
    all.emplace_back(p->name);
  }
  const std::string near = nearest(name, all);
  refuse(str("--from ", printable(name), ": ", near.empty() ? "" : "do you mean " + near + "? ", "there are ",
             listed({kPrograms.begin(), kPrograms.end()})));
}

const Program& read_file_of(const std::string& path, const std::string& from, Draft& draft) {
  SettingsText file = parsed(path, draft);
  const Program& program = program_of_file(file, from);
  return finish_file(std::move(file), program, {}, draft);
}

const Program& read_command(Words words, const std::string& from, Draft& draft) {
  for (const std::string& word : words)
    if (const auto t = find_typography(word)) {
      draft.warnings.push_back(str("the command has a typographic ", t->kind(), ", ",
                                   word.substr(t->at, t->bytes), " (", t->code,
                                   "), which a shell does not read as one; it was read as plain"));
      break;
    }
  words = plain_words(words);
  take_environment(words, draft);
  if (words.empty()) refuse("the command has no program");
  const std::string first = words[0].substr(words[0].rfind('/') + 1);
  const Words rest(words.begin() + 1, words.end());
  const auto named = [&](const Program& program) -> const Program& {
    if (!from.empty() && &program_named(from) != &program)
      refuse(str("--from ", printable(from), ": the command is one of ", program.name));
    return program;
  };
  if (first == "llamafactory-cli") return named(read_llama_factory(rest, draft));
  if (first == "tune") return named(read_tune(rest, draft));
  if (first == "axolotl") return named(read_axolotl(rest, draft));
  if (first == "trl" && rest.empty()) refuse("trl: give its command too, such as trl sft");
  const std::string script = first == "trl" ? "trl " + rest[0] : take_launcher(words, draft);
  if (first == "trl") words.assign(rest.begin() + 1, rest.end());
  const Program& program = from.empty() ? program_of_script(script, words, draft) : program_named(from);
  return read_flags_of(program, std::move(words), draft);
}

}  // namespace ft::translate
