// ft import of TRL, torchtune and DeepSpeed-Chat: command lines and files.
#include "tests/app/translate/import_fixture.h"

namespace ft {
namespace {

using test::Import;
using test::Words;

TEST_F(Import, Trl) {
  const Json made = command({"trl", "sft", "--model_name_or_path", "Qwen/Qwen3-0.6B", "--dataset_name",
                             "trl-lib/Capybara", "--use_peft", "--max_length", "2048", "--packing",
                             "--load_in_4bit", "--eval_strategy", "steps"});
  EXPECT_EQ(made["program"], "trl-sft");
  EXPECT_EQ(missing(made), Words{});
  EXPECT_EQ(at(made, "finetuning_type"), "lora");
  EXPECT_EQ(at(made, "lora.r"), 16);
  EXPECT_EQ(at(made, "lora.lora_dropout"), 0.05);
  EXPECT_EQ(at(made, "lora.target_modules"), (Json{"q_proj", "v_proj"}));
  EXPECT_EQ(at(made, "quantization.bnb_4bit_use_double_quant"), false);
  EXPECT_EQ(at(made, "training.learning_rate"), 2e-5);
  EXPECT_EQ(at(made, "training.lr_scheduler_type"), "linear");
  EXPECT_EQ(at(made, "training.gradient_checkpointing"), true);
  EXPECT_EQ(at(made, "training.bf16"), true);
  EXPECT_EQ(at(made, "data.train_on_inputs"), true);
  EXPECT_EQ(at(made, "data.eval_datasets"),
            Json::parse(R"([{"path": "trl-lib/Capybara", "split": "test"}])"));
  EXPECT_EQ(verdict(made, "--max_length"), "other_name");
  EXPECT_EQ(verdict(made, "lora_alpha"), "default");
  const std::string rows = folder_.write("d.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  const Json completions = command({"trl", "sft", "--model_name_or_path", "m", "--dataset_name", rows});
  EXPECT_EQ(at(completions, "data.train_on_inputs"), "(not set)");
  EXPECT_EQ(at(completions, "finetuning_type"), "full");
}

TEST_F(Import, TrlTrainers) {
  const Words begin{"--model_name_or_path", "m", "--dataset_name", "d"};
  const auto of = [&](Words words, const Words& more) {
    words.insert(words.end(), begin.begin(), begin.end());
    words.insert(words.end(), more.begin(), more.end());
    return command(words);
  };
  const Json dpo = of({"trl", "dpo"}, {"--loss_type", "sigmoid", "bco_pair", "--loss_weights", "0.8", "0.2"});
  EXPECT_EQ(at(dpo, "objective.loss_type"), (Json{"sigmoid", "bco_pair"}));
  EXPECT_EQ(at(dpo, "objective.loss_weights"), (Json{0.8, 0.2}));
  EXPECT_EQ(at(dpo, "training.learning_rate"), 1e-6);
  const Json kto = of({"python", "trl/scripts/kto.py"}, {"--desirable_weight", "0.5"});
  EXPECT_EQ(at(kto, "objective.type"), "kto");
  EXPECT_EQ(at(kto, "data.shuffle"), false);
  const Json grpo =
      of({"accelerate", "launch", "--num_processes", "4", "trl/scripts/grpo.py"},
         {"--reward_funcs", "accuracy_reward", "--num_generations", "4", "--scale_rewards", "False"});
  EXPECT_EQ(missing(grpo), Words{"--reward_funcs"});
  EXPECT_EQ(at(grpo, "objective.scale_rewards"), "none");
  EXPECT_EQ(grpo["command"], "ft launch -n 4 train --config run.json");
  EXPECT_EQ(at(of({"python", "examples/scripts/orpo.py"}, {}), "objective.type"), "orpo");
  EXPECT_EQ(at(of({"trl", "reward"}, {}), "training.learning_rate"), 1e-4);
  const Json sapo = of({"trl", "grpo"}, {"--loss_type", "sapo", "--sapo_temperature_neg", "1.2"});
  EXPECT_EQ(at(sapo, "objective.sapo_temperature_neg"), 1.2);
  EXPECT_EQ(at(of({"trl", "sft"}, {"--loss_type", "dft"}), "objective.loss_type"), Json::array({"dft"}));
  EXPECT_EQ(at(of({"trl", "sft"}, {"--loss_type", "chunked_nll"}), "objective.loss_type"), "(not set)");
  EXPECT_EQ(missing(of({"trl", "sft"}, {"--loss_type", "other"})), Words{"--loss_type"});
  const Json shards = of({"trl", "sft", "--accelerate_config", "zero3", "--num_processes", "2"}, {});
  EXPECT_EQ(at(shards, "zero_optimization.stage"), 3);
}

TEST_F(Import, TrlYaml) {
  const std::string file =
      folder_.write("c.yaml",
                    "model_name_or_path:\n  Qwen/Qwen2.5-0.5B\ndataset_name:\n  stanfordnlp/imdb\n"
                    "learning_rate:\n  0.0001\nlr_scheduler_type: cosine\nreport_to: none\n");
  const Json made = command({"trl", "sft", "--config", file, "--learning_rate", "2e-4"});
  EXPECT_EQ(at(made, "training.learning_rate"), 2e-4);
  EXPECT_EQ(at(made, "data.datasets")[0]["path"], "stanfordnlp/imdb");
  const Json same = answer({"import", "--json", "--from", "trl-sft", file});
  EXPECT_EQ(at(same, "training.learning_rate"), 1e-4);
  const Json told = imported("model_name_or_path: m\ndataset_name: d\npacking: true\n");
  EXPECT_EQ(told["program"], "trl-sft") << "only SFT packs";
}

const char* const kTorchtune = R"(output_dir: /tmp/out
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: /tmp/M/tokenizer.model
  max_seq_len: null
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: /tmp/M/
  output_dir: ${output_dir}
dataset:
  _component_: torchtune.datasets.alpaca_cleaned_dataset
  packed: False
  split: train[:95%]
dataset_val:
  _component_: torchtune.datasets.alpaca_cleaned_dataset
  split: train[95%:]
run_val_every_n_steps: null
model:
  _component_: torchtune.models.llama3.qlora_llama3_8b
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 8
  lora_alpha: 16
seed: null
batch_size: 2
batch_size_val: ${batch_size}
optimizer:
  _component_: torch.optim.AdamW
  fused: True
  lr: 3e-4
lr_scheduler:
  _component_: torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup
  num_warmup_steps: 100
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
epochs: 2
max_steps_per_epoch: 50
gradient_accumulation_steps: 8
clip_grad_norm: null
device: cuda
dtype: bf16
enable_activation_checkpointing: True
metric_logger:
  _component_: torchtune.training.metric_logging.DiskLogger
)";

TEST_F(Import, Torchtune) {
  const Json made = imported(kTorchtune);
  EXPECT_EQ(made["program"], "torchtune");
  EXPECT_EQ(missing(made), Words{});
  EXPECT_EQ(at(made, "model.model_name_or_path"), "/tmp/M/");
  EXPECT_EQ(at(made, "training.output_dir"), "/tmp/out");
  EXPECT_EQ(at(made, "quantization.load_in_4bit"), true);
  EXPECT_EQ(at(made, "lora.target_modules"),
            (Json{"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}));
  EXPECT_EQ(at(made, "data.datasets"),
            Json::parse(R"([{"path": "yahma/alpaca-cleaned", "type": "alpaca_chat"}])"));
  EXPECT_EQ(at(made, "data.val_set_size"), 0.05);
  EXPECT_EQ(at(made, "data.chat_template"), "llama3");
  EXPECT_EQ(at(made, "data.train_on_inputs"), true);
  EXPECT_EQ(at(made, "data.truncation"), "error");
  EXPECT_EQ(at(made, "training.per_device_eval_batch_size"), 2);
  EXPECT_EQ(at(made, "training.max_steps"), 100);
  EXPECT_EQ(at(made, "training.weight_decay"), 0.01);
  EXPECT_EQ(at(made, "training.max_grad_norm"), 0);
  EXPECT_EQ(at(made, "training.warmup_steps"), 100);
  EXPECT_EQ(at(made, "training.bf16"), true);
  const std::string file = folder_.write("t.yaml", kTorchtune);
  const Json two = command(
      {"tune", "run", "--nproc_per_node", "2", "lora_finetune_distributed", "--config", file, "epochs=1"});
  EXPECT_EQ(at(two, "training.max_steps"), 50);
  EXPECT_EQ(at(two, "zero_optimization.stage"), 3);
  EXPECT_EQ(two["command"], "ft launch -n 2 train --config run.json");
}

TEST_F(Import, TorchtuneMistakes) {
  const std::string whole = kTorchtune;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  expect_refusal(with("${output_dir}", "${nothing}"),
                 ":9: checkpointer.output_dir: ${nothing} refers to no key");
  expect_refusal(with("${batch_size}", "${batch_size_val}"), "its references lead to each other");
  expect_refusal(with("${batch_size}", "${eval:'1 + 1'}"), "ft computes no expressions");
  expect_refusal(with("${batch_size}", "${model}"), "refers to more than a value");
  expect_refusal(with("alpaca_cleaned_dataset", "samsum_dataset"),
                 "ft does not know the rows of samsum_dataset");
  expect_refusal(with("qlora_llama3_8b", "llama3_2_vision_11b"), "sees pictures");
  expect_refusal(with("  checkpoint_dir: /tmp/M/\n", ""), "checkpointer.checkpoint_dir is missing");
  expect_refusal("model:\n  _component_: torchtune.models.llama2.llama2_7b\n", "trains nothing");
  EXPECT_NE(
      run({"import", "--", "tune", "run", "r", "--config", "llama3/8B_lora"}).err.find("is no file here"),
      std::string::npos);
  const Json qat = imported(whole + "quantizer:\n  _component_: torchtune.training.quantization.Int8\n");
  EXPECT_EQ(missing(qat), Words{"quantizer._component_"});
}

TEST_F(Import, DeepSpeedChat) {
  const std::string rows =
      folder_.write("d.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n");
  const Words more{"--data_path", rows,          "--data_split", "2,4,4", "--dtype",
                   "bf16",        "--deepspeed", "--output_dir", "o"};
  const auto of = [&](const std::string& script, Words own) {
    own.insert(own.begin(), {"deepspeed", script});
    own.insert(own.end(), more.begin(), more.end());
    return command(own);
  };
  const Json sft = of("step1_supervised_finetuning/main.py", {"--model_name_or_path", "m"});
  EXPECT_EQ(sft["program"], "deepspeed-chat-sft");
  EXPECT_EQ(at(sft, "data.datasets")[0]["weight"], 0.2);
  EXPECT_EQ(verdict(sft, "seed"), "default");
  const Json reward = of("main.py", {"--model_name_or_path", "m", "--num_padding_at_beginning", "1"});
  EXPECT_EQ(reward["program"], "deepspeed-chat-reward");
  EXPECT_EQ(at(reward, "objective.type"), "reward");
  EXPECT_EQ(at(reward, "data.datasets")[0]["weight"], 0.4);
  EXPECT_EQ(at(reward, "training.learning_rate"), 5e-5);
  const Json dpo = of("step2_dpo_finetuning/main.py", {"--model_name_or_path", "m", "--beta", "0.2"});
  EXPECT_EQ(at(dpo, "objective.beta"), 0.2);
  const Json ppo =
      of("step3_rlhf_finetuning/main.py",
         {"--actor_model_name_or_path", "m", "--critic_model_name_or_path", "r", "--actor_zero_stage", "3",
          "--per_device_generation_batch_size", "8", "--per_device_training_batch_size", "4"});
  EXPECT_EQ(ppo["program"], "deepspeed-chat-ppo");
  EXPECT_EQ(at(ppo, "objective.reward_model_name_or_path"), "r");
  EXPECT_EQ(at(ppo, "objective.steps_per_generation"), 2);
  EXPECT_EQ(at(ppo, "zero_optimization.stage"), 3);
  EXPECT_EQ(missing(ppo), Words{});
}

TEST_F(Import, Commands) {
  const auto message = [](Words words) {
    words.insert(words.begin(), {"import", "--"});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 2);
    return o.err;
  };
  EXPECT_NE(message({"trl"}).find("give its command too"), std::string::npos);
  EXPECT_NE(message({"trl", "sfft", "--x"}).find("trl sfft is not known"), std::string::npos);
  EXPECT_NE(message({"trl", "sft", "--learning_rte", "1"}).find("do you mean --learning_rate?"),
            std::string::npos);
  EXPECT_NE(message({"llamafactory-cli", "chat"}).find("only its command train"), std::string::npos);
  EXPECT_NE(message({"axolotl", "train"}).find("axolotl train FILE"), std::string::npos);
  EXPECT_NE(message({"trl", "sft", "--dataset_name", "d"}).find("model_name_or_path is missing"),
            std::string::npos);
  EXPECT_NE(message({"X=1"}).find("no program"), std::string::npos);
}

}  // namespace
}  // namespace ft
