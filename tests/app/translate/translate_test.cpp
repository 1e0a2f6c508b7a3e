// ft translate-args: every flag of the translated programs, and complete commands.
#include <nlohmann/json.hpp>

#include "app/config/config.h"
#include "app/translate/list.h"
#include "app/translate/programs.h"
#include "engine/settings/fields.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using namespace translate;
using Words = std::vector<std::string>;

std::string t5() { return source_path("tests/golden/models/t5/model"); }
std::string llama() { return source_path("tests/golden/models/llama/model"); }

// The shortest valid command of each program, followed by `more`.
Words translation(const Words& more = {}) {
  Words all{"run_translation.py", "--model_name_or_path", t5(), "--do_train",    "--train_file",
            "train.jsonl",        "--source_lang",        "en", "--target_lang", "ro"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
Words chat(const Words& more = {}) {
  Words all{"step1_supervised_finetuning/main.py", "--model_name_or_path", llama()};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Outcome translated(const Words& command, bool json = true) {
  Words all{"translate-args", "--"};
  if (json) all.insert(all.begin() + 1, "--json");
  all.insert(all.end(), command.begin(), command.end());
  return run(all);
}

Json object_of(const Words& command) {
  const Outcome o = translated(command);
  EXPECT_EQ(o.code, 0) << o.err;
  return Json::parse(o.out);
}

Json row_of(const Json& object, const std::string& flag) {
  for (const Json& row : object["flags"])
    if (row["flag"] == flag) return row;
  ADD_FAILURE() << "no row of " << flag;
  return {};
}

bool warns(const Json& object, const std::string& text) {
  for (const std::string warning : object["warnings"])
    if (warning.find(text) != warning.npos) return true;
  return false;
}

std::string refusal(const Words& command) {
  const Outcome o = translated(command, false);
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_EQ(o.out, "");
  return o.err;
}

// Returns a value that the flag accepts.
Words value_for(const Flag& flag) {
  static const std::map<std::string, std::string> words{{"lr_scheduler_type", "cosine"},
                                                        {"eval_strategy", "no"},
                                                        {"evaluation_strategy", "no"},
                                                        {"save_strategy", "epoch"},
                                                        {"metric_for_best_model", "loss"},
                                                        {"optim", "adamw_torch"},
                                                        {"optim_args", "momentum=0.9"},
                                                        {"lr_scheduler_kwargs", "{}"},
                                                        {"logging_strategy", "steps"},
                                                        {"log_level", "info"},
                                                        {"report_to", "tensorboard"},
                                                        {"ddp_backend", "nccl"},
                                                        {"data_split", "2,4,4"},
                                                        {"dtype", "bf16"},
                                                        {"fsdp", "full_shard auto_wrap"},
                                                        {"mixed_precision", "bf16"},
                                                        {"warmup_steps", "3"},
                                                        {"eval_steps", "3"},
                                                        {"logging_steps", "3"},
                                                        {"save_steps", "3"},
                                                        {"num_processes", "1"},
                                                        {"launcher", "pdsh"}};
  if (const auto at = words.find(flag.name); at != words.end()) return {at->second};
  switch (flag.kind) {
    case ValueKind::toggle:
    case ValueKind::boolean:
      return {};
    case ValueKind::whole:
      return {"1"};
    case ValueKind::number:
      return {"0.5"};
    default:
      return {"x"};
  }
}

// Returns true if a setting of this name exists and, with `settable`, accepts values other than its default.
bool is_setting(const std::string& path, bool settable) {
  if (path == "deepspeed") return true;
  for (const Setting& s : describe<RunConfig>())
    if (s.path == path) return !settable || !s.rules.only_default;
  return false;
}

void expect_verdict(const Flag& flag, const Words& command) {
  Words all = command;
  all.push_back("--" + std::string(flag.name));
  const Words value = value_for(flag);
  all.insert(all.end(), value.begin(), value.end());
  if (std::string(flag.name).starts_with("lora_"))
    all.insert(all.end(), {"--lora_dim", "8", "--only_optimize_lora"});
  if (std::string(flag.name) == "optim_args") all.insert(all.end(), {"--optim", "sgd"});
  const Outcome o = translated(all);
  const bool refused = flag.fate == Fate::refused || flag.fate == Fate::refused_on;
  if (std::string(flag.to).starts_with("training.") && std::string(flag.to).find(',') == std::string::npos &&
      !is_setting(flag.to, true)) {  // not available yet: refused by the setting's name
    EXPECT_EQ(o.code, 2) << flag.name;
    EXPECT_NE(o.err.find(flag.to), std::string::npos) << o.err;
    return;
  }
  ASSERT_EQ(o.code, refused ? 2 : 0) << flag.name << ": " << o.err;
  const Json object = Json::parse(o.out), row = row_of(object, "--" + std::string(flag.name));
  EXPECT_TRUE(object["config"].is_null() == refused) << flag.name;
  const std::string verdict = row["verdict"];
  EXPECT_EQ(verdict == "rejected", refused) << flag.name;
  EXPECT_EQ(verdict == "no_effect", flag.fate == Fate::no_effect) << flag.name;
  if (refused || flag.fate == Fate::no_effect) {
    EXPECT_TRUE(row["to"].is_null()) << flag.name;
    EXPECT_NE(row["why"], "") << flag.name;
    return;
  }
  EXPECT_TRUE(verdict == "honoured" || verdict == "mapped") << flag.name << ": " << verdict;
  for (const std::string to : row["to"].is_array() ? row["to"] : Json::array({row["to"]}))
    EXPECT_TRUE(to.starts_with("ft ") || is_setting(to, false)) << flag.name << ": " << to;
  if (flag.fate != Fate::same || std::string(flag.to).starts_with("ft ")) return;
  std::string pointer = "/" + std::string(flag.to);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  EXPECT_EQ(object["config"].at(Json::json_pointer(pointer)), row["value"]) << flag.name;
}

// Writes a tokenizer of a few words, which validate needs.
std::string tokenizer_in(const test::TempFolder& folder) {
  folder.write("words/tokenizer.json", R"({
    "added_tokens": [{"id": 1, "content": "</s>", "special": true}],
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["</s>", 0], ["e", -1], ["n", -2]]}})");
  folder.write("words/tokenizer_config.json", R"({"eos_token": "</s>"})");
  return "model.tokenizer_name_or_path=" + (folder / "words");
}

TEST(TranslateArgs, EveryFlagOfRunTranslation) {
  for (const std::span<const Flag> flags : {run_translation_flags(), training_arguments()})
    for (const Flag& flag : flags) {
      const std::string name = flag.name;
      const bool evaluates =
          name == "do_eval" || name == "load_best_model_at_end" || name == "max_eval_samples";
      if (name == "model_name_or_path" || name == "fsdp_config") continue;
      expect_verdict(flag, evaluates || name == "predict_with_generate"
                               ? translation({"--validation_file", "d.jsonl", "--eval_strategy", "epoch",
                                              "--save_strategy", "epoch"})
                               : translation());
    }
}

TEST(TranslateArgs, EveryFlagOfDeepSpeedChat) {
  for (const Flag& flag : deepspeed_chat_flags()) {
    const std::string name = flag.name;
    if (name == "model_name_or_path" || name == "lora_dim" || name == "only_optimize_lora" ||
        name == "offload")
      continue;  // tested below
    expect_verdict(flag, chat());
  }
}

TEST(TranslateArgs, EveryFlagOfTheLaunchers) {
  for (const std::string launcher : {"deepspeed", "torchrun", "accelerate"})
    for (const Flag& flag : launcher_options(launcher)) {
      Words all{launcher};
      if (launcher == "accelerate") all.emplace_back("launch");
      all.push_back("--" + std::string(flag.name));
      const Words value = value_for(flag), rest = translation();
      all.insert(all.end(), value.begin(), value.end());
      all.insert(all.end(), rest.begin(), rest.end());
      const Outcome o = translated(all);
      ASSERT_EQ(o.code, flag.fate == Fate::refused ? 2 : 0) << flag.name << ": " << o.err;
      std::string name = "--" + std::string(flag.name);
      const Json row = row_of(Json::parse(o.out), name);
      EXPECT_EQ(row["verdict"] == "rejected", flag.fate == Fate::refused) << flag.name;
    }
}

// The command of a course on T5 with DeepSpeed, with files instead of names of the Hub.
TEST(TranslateArgs, TheRunIsAccepted) {
  const test::TempFolder folder;
  const std::string row = R"({"translation": {"en": "a", "ro": "b"}})";
  const std::string train = folder.write("train.jsonl", row), held_out = folder.write("held.jsonl", row);
  const Outcome o = translated({"deepspeed",
                                "--num_gpus=2",
                                "examples/pytorch/translation/run_translation.py",
                                "--model_name_or_path",
                                t5(),
                                "--per_device_train_batch_size",
                                "4",
                                "--per_device_eval_batch_size",
                                "4",
                                "--output_dir",
                                folder / "out",
                                "--overwrite_output_dir",
                                "--bf16",
                                "--do_train",
                                "--do_eval",
                                "--max_train_samples",
                                "500",
                                "--max_eval_samples",
                                "50",
                                "--num_train_epochs",
                                "1",
                                "--train_file",
                                train,
                                "--validation_file",
                                held_out,
                                "--source_lang",
                                "en",
                                "--target_lang",
                                "ro",
                                "--source_prefix",
                                "translate English to Romanian: ",
                                "--predict_with_generate",
                                "--num_beams",
                                "4",
                                "--val_max_target_length",
                                "64"},
                               false);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("next: ft launch --num_gpus 2 train --config run.json --overwrite\n"),
            std::string::npos)
      << o.err;
  const std::string file = folder.write("run.json", o.out);
  const Outcome valid = run({"validate", "--config", file, tokenizer_in(folder)});
  EXPECT_EQ(valid.code, 0) << valid.err;
  const Json c = Json::parse(o.out);
  EXPECT_EQ(c["finetuning_type"], "full");
  EXPECT_EQ(c["data"]["datasets"][0], (Json{{"path", train},
                                            {"type", "translation"},
                                            {"source_lang", "en"},
                                            {"target_lang", "ro"},
                                            {"source_prefix", "translate English to Romanian: "},
                                            {"max_samples", 500}}));
  EXPECT_EQ(c["data"]["eval_datasets"][0]["max_samples"], 50);
  EXPECT_EQ(
      c["evaluation"],
      (Json{{"predict_with_generate", true}, {"eval_strategy", "epoch"}, {"metrics", {"loss", "bleu"}}}));
  EXPECT_EQ(c["generation"], (Json{{"num_beams", 4}, {"max_length", 64}}));
  EXPECT_EQ(c["training"]["learning_rate"], 5e-5);  // transformers' default
  EXPECT_EQ(c["training"]["lr_scheduler_type"], "linear");
  EXPECT_EQ(c["training"]["gradient_checkpointing"], false);
}

TEST(TranslateArgs, NamesOfTheHubBecomeFiles) {
  const Json o = object_of({"deepspeed", "run_translation.py", "--model_name_or_path", "t5-small",
                            "--do_train", "--fp16", "--deepspeed", "ds.json", "--dataset_name", "wmt16",
                            "--dataset_config", "ro-en", "--source_lang", "en_XX", "--target_lang", "ro_RO"});
  EXPECT_EQ(o["config"]["data"]["datasets"][0]["path"], "wmt16.ro-en.train.jsonl");
  EXPECT_EQ(o["config"]["data"]["datasets"][0]["source_lang"], "en");
  EXPECT_EQ(o["config"]["deepspeed"], "ds.json");
  EXPECT_EQ(row_of(o, "--dataset_config_name")["value"], "ro-en");  // argparse's abbreviation
  for (const char* text : {"split='train').to_json('wmt16.ro-en.train.jsonl')", "hf download t5-small",
                           "--source_prefix 'translate English to Romanian: '", "use --bf16"})
    EXPECT_TRUE(warns(o, text)) << text << "\n" << o["warnings"];
  EXPECT_FALSE(warns(o, "--predict_with_generate"));
}

TEST(TranslateArgs, MistakesOfTheDocumentsAreWarnedOf) {
  EXPECT_TRUE(warns(object_of(translation({"--do_eval", "--validation_file", "d.jsonl"})),
                    "--predict_with_generate"));
  EXPECT_TRUE(warns(object_of(translation({"--predict_with_generate"})), "add --do_eval"));
  EXPECT_FALSE(warns(object_of(translation({"--source_prefix", "x: "})), "prefix"));
  const Json pasted =
      object_of(translation({"\u2013fp16", "--source_prefix", "\u201ctranslate", "it:", "\u201d"}));
  EXPECT_TRUE(warns(pasted, "a typographic dash, \u2013 (U+2013)"));
  EXPECT_EQ(pasted["config"]["data"]["datasets"][0]["source_prefix"], "translate it: ");
  EXPECT_TRUE(warns(object_of(translation({"--seed", "1", "--seed", "2"})), "--seed is given twice"));
}

TEST(TranslateArgs, PythonsWords) {
  for (const auto& [word, value] :
       {std::pair{"True", Json(true)}, {"False", Json(false)}, {"out/x", Json("out/x")}})
    EXPECT_EQ(object_of(translation(
                  {"--resume_from_checkpoint", word}))["config"]["training"]["resume_from_checkpoint"],
              value);
}

TEST(TranslateArgs, MistakesAreNamed) {
  const auto expect = [](const Words& more, const std::string& text) {
    const std::string said = refusal(translation(more));
    EXPECT_NE(said.find(text), std::string::npos) << said;
  };
  expect({"--learning_rte", "1"},
         "run_translation.py has no flag --learning_rte; do you mean --learning_rate?");
  expect({"--frobnicate"}, "run_translation.py has no flag --frobnicate\n");
  expect({"--learning_rate", "x"}, "--learning_rate: x is not a number");
  expect({"--learning_rate", "nan"}, "--learning_rate: nan is not a number");
  expect({"--learning_rate"}, "--learning_rate needs a value");
  expect({"--max_train_samples", "5e2"}, "--max_train_samples: 5e2 is not a whole number");
  expect({"--max_train_samples", "99999999999999999999"}, "is not a whole number");
  expect({"--max_train_samples", "0"}, "max_samples");
  expect({"--fp16", "maybe"}, "--fp16: maybe is not true or false");
  expect({"--max", "3"}, "--max may be --max_source_length or --max_target_length; write it out");
  expect({"stray"}, "stray: run_translation.py takes only flags here");
  expect({"--lr_scheduler_type", "foo"}, "--lr_scheduler_type: run.json:");
  expect({"--lr_scheduler_kwargs", "{"}, "is not JSON");
  expect({"--fp16", "--bf16"}, "training.fp16 and training.bf16 are both true");
  expect({"--report_to", "comet_ml"}, "--report_to is refused: comet_ml needs a network");
  expect({"--push_to_hub"}, "--push_to_hub is refused: ");
  EXPECT_EQ(refusal({"run_translation.py"}),
            "ft translate-args: run_translation.py needs --model_name_or_path\n");
  EXPECT_NE(refusal({"python", "train.py"}).find("train.py is not known"), std::string::npos);
  EXPECT_NE(refusal({"horovodrun", "x.py"}).find("horovodrun is not known"), std::string::npos);
  EXPECT_NE(refusal({"deepspeed", "--num_gpus", "2"}).find("where is the program?"), std::string::npos);
  EXPECT_NE(refusal({"deepspeed", "--num_gpsu", "2", "run_translation.py"}).find("do you mean --num_gpus?"),
            std::string::npos);
  EXPECT_NE(refusal({"step4/main.py"}).find("is not known"), std::string::npos);
}

TEST(TranslateArgs, SecretsAreNotShown) {
  Words words = translation({"--hub_token", "hf_verysecret", "--token=hf_verysecret"});
  words.insert(words.begin(), "HF_TOKEN=hf_verysecret");
  const Outcome o = translated(words);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ((o.out + o.err).find("verysecret"), std::string::npos);
}

TEST(TranslateArgs, Launchers) {
  const auto command = [](Words words) {
    const Words rest = translation({"--use_cpu"});
    words.insert(words.end(), rest.begin(), rest.end());
    return object_of(words)["command"].get<std::string>();
  };
  EXPECT_EQ(command({}), "ft train --config run.json");
  EXPECT_EQ(command({"python3", "-u"}), "ft train --config run.json");
  EXPECT_EQ(command({"CUDA_VISIBLE_DEVICES=0,1", "OMP_NUM_THREADS=1", "python"}),
            "CUDA_VISIBLE_DEVICES=0,1 ft train --config run.json");
  EXPECT_EQ(command({"NCCL_DEBUG=INFO", "NCCL_TIMEOUT=10800", "/usr/bin/python3.11", "-u"}),
            "NCCL_DEBUG=INFO ft train --config run.json");
  EXPECT_EQ(command({"deepspeed"}), "ft launch train --config run.json");
  EXPECT_EQ(command({"deepspeed", "--include", "localhost:0,1", "--master_port=29501", "--save_pid", "-q"}),
            "ft launch --include localhost:0,1 --master_port 29501 train --config run.json");
  EXPECT_EQ(command({"deepspeed", "-H", "hosts", "--num_nodes", "2", "--no_ssh", "--node_rank", "1"}),
            "ft launch --num_nodes 2 --hostfile hosts --node_rank 1 --no_ssh train --config run.json");
  EXPECT_EQ(command({"torchrun", "--nproc-per-node", "2", "--nnodes=1"}),
            "ft launch -n 2 --num_nodes 1 train --config run.json");
  EXPECT_EQ(command({"python", "-m", "torch.distributed.run", "--nproc_per_node=4", "--standalone"}),
            "ft launch -n 4 train --config run.json");
  EXPECT_EQ(
      command({"accelerate", "launch", "--num_processes", "8", "--num_machines", "2", "--machine_rank", "0",
               "--main_process_ip", "10.0.0.1", "--main_process_port", "9901", "--use_deepspeed"}),
      "ft launch -n 4 --num_nodes 2 --node_rank 0 --master_addr 10.0.0.1 --master_port 9901 train --config "
      "run.json");
  EXPECT_NE(
      refusal({"accelerate", "launch", "--num_processes", "3", "--num_machines", "2", "run_translation.py"})
          .find("--num_processes 3 is not a multiple of --num_machines 2"),
      std::string::npos);
  const Words eval{"run_translation.py",
                   "--model_name_or_path",
                   t5(),
                   "--do_eval",
                   "--validation_file",
                   "d.jsonl",
                   "--source_lang",
                   "en",
                   "--target_lang",
                   "ro",
                   "--train_file",
                   "d.jsonl"};
  EXPECT_EQ(object_of(eval)["command"], "ft eval --config run.json");
}

TEST(TranslateArgs, DeepSpeedChat) {
  const test::TempFolder folder;
  std::string rows;
  for (int i = 0; i < 10; ++i) rows += "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n";
  const std::string data = folder.write("d.jsonl", rows);
  const Words words{"--data_path",
                    data,
                    "--data_split",
                    "2,4,4",
                    "--max_seq_len",
                    "64",
                    "--learning_rate",
                    "9.65e-6",
                    "--num_warmup_steps",
                    "3",
                    "--zero_stage",
                    "3",
                    "--dtype",
                    "bf16",
                    "--deepspeed",
                    "--gradient_checkpointing",
                    "--output_dir",
                    folder / "out"};
  const Json full = object_of(chat(words))["config"];
  EXPECT_EQ(full["finetuning_type"], "full");
  EXPECT_EQ(full["data"]["datasets"], (Json{{{"path", data}, {"weight", 0.2}}}));
  EXPECT_EQ(full["data"]["max_seq_length"], 64);
  EXPECT_EQ(full["data"]["train_on_inputs"], true);
  EXPECT_EQ(full["zero_optimization"]["stage"], 3);
  EXPECT_EQ(full["zero_optimization"]["stage3_prefetch_bucket_size"], 30000000);
  EXPECT_EQ(full["training"]["learning_rate"], 9.65e-6);
  EXPECT_EQ(full["training"]["warmup_steps"], 3);
  EXPECT_EQ(full["training"]["adam_beta2"], 0.95);
  EXPECT_EQ(full["training"]["per_device_train_batch_size"], 16);
  EXPECT_EQ(full["training"]["seed"], 1234);
  EXPECT_EQ(full["training"]["bf16"], true);

  Words with_lora = words;
  with_lora.insert(with_lora.end(),
                   {"--lora_dim", "8", "--lora_module_name", "layers.", "--only_optimize_lora"});
  const Json lora = object_of(chat(with_lora));
  EXPECT_EQ(lora["config"]["finetuning_type"], "lora");
  EXPECT_EQ(lora["config"]["lora"], (Json{{"r", 8}, {"lora_alpha", 1}, {"target_modules", ".*layers\\..*"}}));
  EXPECT_EQ(lora["config"]["training"]["learning_rate"], 9.65e-6);
  EXPECT_TRUE(warns(lora, "--lora_learning_rate"));
  const std::string file = folder.write("run.json", lora["config"].dump());
  const Outcome valid = run({"validate", "--config", file, tokenizer_in(folder)});
  EXPECT_EQ(valid.code, 0) << valid.err;
  with_lora.insert(with_lora.end(), {"--lora_learning_rate", "1e-3"});
  EXPECT_EQ(object_of(chat(with_lora))["config"]["training"]["learning_rate"], 1e-3);

  EXPECT_NE(refusal(chat({"--lora_dim", "8"})).find("without --only_optimize_lora"), std::string::npos);
  EXPECT_NE(refusal(chat({"--data_split", "1,x"})).find("is not three numbers"), std::string::npos);
  EXPECT_NE(refusal(chat({"--data_split", "0,1,1"})).find("this step's above 0"), std::string::npos);
  EXPECT_NE(refusal(chat({"--dtype", "int8"})).find("int8 is neither fp16 nor bf16"), std::string::npos);
  EXPECT_EQ(row_of(object_of(chat({"--lora_module_name", "x"})), "--lora_module_name")["verdict"],
            "no_effect");
  const Json rm = object_of(chat());  // without arguments: its default data
  EXPECT_EQ(rm["config"]["data"]["datasets"][0]["path"], "Dahoas.rm-static.train.jsonl");
  EXPECT_EQ(rm["config"]["evaluation"]["eval_strategy"], "epoch");
}

}  // namespace
}  // namespace ft
