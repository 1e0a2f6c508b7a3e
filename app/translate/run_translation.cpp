// Translates transformers' run_translation.py: the flags that it has in addition to TrainingArguments.
#include <nlohmann/json.hpp>

#include "app/translate/list.h"
#include "app/translate/programs.h"
#include "app/translate/sources.h"

namespace ft::translate {
namespace {

using enum ValueKind;
using enum Fate;

constexpr const char* kFolder = "the model is the folder that --model_name_or_path names";

constexpr Flag kTranslation[] = {
    {"model_name_or_path", text, same, "model.model_name_or_path", "a folder"},
    {"config_name", text, refused, "", "write it into the config.json of the model's folder"},
    {"tokenizer_name", text, same, "model.tokenizer_name_or_path", "a folder"},
    {"cache_dir", text, no_effect, "", kFolder},
    {"use_fast_tokenizer", boolean, no_effect, "", "ft's tokenizers are as fast and give the same tokens"},
    {"model_revision", text, no_effect, "", kFolder},
    {"token", secret, no_effect, "", kFolder},
    {"use_auth_token", secret, no_effect, "", kFolder},
    {"trust_remote_code", boolean, no_effect, "", "ft runs no code that comes with a model"},
    {"source_lang", text, own, "data.datasets[].source_lang", "up to an underscore: en_XX is en"},
    {"target_lang", text, own, "data.datasets[].target_lang", "up to an underscore: ro_RO is ro"},
    {"source_prefix", text, own, "data.datasets[].source_prefix", ""},
    {"dataset_name", text, own, "data.datasets[].path", "a file, which you write once"},
    {"dataset_config_name", text, own, "data.datasets[].path", "part of that file's name"},
    {"train_file", text, own, "data.datasets[].path", ""},
    {"validation_file", text, own, "data.eval_datasets[].path", ""},
    {"test_file", text, no_effect, "",
     "afterwards: ft generate --model OUTPUT_DIR --input FILE --output FILE"},
    {"overwrite_cache", boolean, no_effect, "", "ft's prepared data is never out of date"},
    {"preprocessing_num_workers", whole, same, "data.preprocessing_num_workers", "threads"},
    {"max_source_length", whole, same, "data.max_source_length", ""},
    {"max_target_length", whole, same, "data.max_target_length", ""},
    {"val_max_target_length", whole, same, "generation.max_length", "answers' length, with the start token"},
    {"pad_to_max_length", boolean, no_effect, "", "ft does not pad; the result is the same"},
    {"max_train_samples", whole, own, "data.datasets[].max_samples", "the first n, as in run_translation.py"},
    {"max_eval_samples", whole, own, "data.eval_datasets[].max_samples",
     "the first n, as in run_translation.py"},
    {"max_val_samples", whole, own, "data.eval_datasets[].max_samples", "its old name"},
    {"max_predict_samples", whole, no_effect, "", "ft generate answers all rows of its input"},
    {"num_beams", whole, same, "generation.num_beams", ""},
    {"ignore_pad_token_for_loss", boolean, no_effect, "", "ft does not pad"},
    {"forced_bos_token", text, refused, "", "give its number: generation.forced_bos_token_id"},
};

// Returns a source of rows: the named file, or the file of a part of the data set.
Json source(const Given& given, const std::string& file_flag, const std::string& part, Draft& draft) {
  const std::string file = given.text(file_flag);
  Json s{{"path", file}};
  if (file.empty())
    s["path"] = exported_part(given.text("dataset_name"), given.text("dataset_config_name"), part, draft);
  s["type"] = "translation";
  for (const char* side : {"source_lang", "target_lang"}) {
    const std::string language = given.text(side);
    s[side] = language.substr(0, language.find('_'));
  }
  if (given.has("source_prefix")) s["source_prefix"] = given.at("source_prefix");
  return s;
}

// Returns "translate English to Romanian: ", for the languages that T5 was trained on.
std::string usual_prefix(const Given& given) {
  const auto name = [&](const char* flag) -> std::string {
    const std::string language = given.text(flag).substr(0, 2);
    return language == "ro"   ? "Romanian"
           : language == "de" ? "German"
           : language == "fr" ? "French"
                              : "English";
  };
  return "translate " + name("source_lang") + " to " + name("target_lang") + ": ";
}

void warn_of_mistakes(const Given& given, bool evaluates, Draft& draft) {
  const bool t5 = is_t5(given.text("model_name_or_path"));
  if (t5 && !given.has("source_prefix"))
    draft.warnings.push_back("T5 learnt its tasks by a prefix, and none is given; add --source_prefix '" +
                             usual_prefix(given) + "'");
  if (t5 && given.on("fp16"))
    draft.warnings.emplace_back(
        "T5's values exceed float16's range, so that its loss often becomes NaN; use --bf16, in which it was "
        "trained, or neither");
  if (evaluates && !given.on("predict_with_generate"))
    draft.warnings.emplace_back(
        "evaluations measure the loss only; add --predict_with_generate for BLEU of generated translations");
}

}  // namespace

std::span<const Flag> run_translation_flags() { return kTranslation; }

namespace {

void finish_run_translation(const SettingsText&, const Given& given, Draft& draft) {
  finish_training_arguments(given, draft);
  const auto need = [&](bool there, const char* what) {
    if (!there) throw UserError(Exit::config, str("run_translation.py needs ", what));
  };
  need(given.has("model_name_or_path"), "--model_name_or_path");
  const bool set = given.has("dataset_name");
  need(set || given.has("train_file") || given.has("validation_file"), "--dataset_name or --train_file");
  need(given.has("source_lang") && given.has("target_lang"), "--source_lang and --target_lang");

  const bool evaluates =
      !given.on("do_train") || draft.config["evaluation"].value("eval_strategy", "no") != "no";
  Json train = source(given, "train_file", "train", draft);
  if (given.has("max_train_samples")) train["max_samples"] = given.at("max_train_samples");
  draft.set("data.datasets", Json::array({train}));
  if (evaluates) {
    need(set || given.has("validation_file"), "--validation_file to evaluate");
    Json held_out = source(given, "validation_file", "validation", draft);
    for (const char* most : {"max_val_samples", "max_eval_samples"})
      if (given.has(most)) held_out["max_samples"] = given.at(most);
    draft.set("data.eval_datasets", Json::array({held_out}));
  }
  if (given.on("predict_with_generate")) {
    if (!evaluates) draft.config["evaluation"].erase("predict_with_generate");
    if (!evaluates)
      draft.warnings.emplace_back("--predict_with_generate generates in evaluations: add --do_eval");
    if (evaluates) draft.set("evaluation.metrics", Json::array({"loss", "bleu"}), true);
    draft.set("generation.max_length",
              given.has("max_target_length") ? given.at("max_target_length") : Json(128), true);
  }
  expect_folder(given.text("model_name_or_path"), draft);
  warn_of_mistakes(given, evaluates, draft);
}

}  // namespace

const Program kRunTranslation{
    .name = "run-translation",
    .title = "run_translation.py",
    .about = "`python run_translation.py ...`, with any launcher: T5 on pairs of sentences (t5.md).",
    .keys =
        [] {
          return joined({kTranslation, training_arguments()});
        },
    .defaults = {},
    .runs = [](const std::string& script) { return is_script(script, "run_translation.py"); },
    .finish = finish_run_translation};

}  // namespace ft::translate
