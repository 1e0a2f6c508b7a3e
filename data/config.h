// The settings under `data` in a run's configuration: names and defaults of reference/ft-config.schema.json.
// Reading and validating JSON is app/'s business.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ft {

// One source of samples.
struct DatasetConfig {
  std::string path;                  // as the user wrote it: a file, a glob or a folder
  std::string type = "auto";         // the rows' format
  std::optional<std::string> split;  // its name in logs
  double weight = 1;                 // how often its samples are taken in a pass; 2 = twice, 0.5 = half
  std::optional<std::int64_t> max_samples;     // its first n rows
  std::map<std::string, std::string> columns;  // {"prompt": "question"}: our name -> the file's
  std::optional<std::string> source_lang, target_lang, source_prefix;  // translation

  void fields(auto& f) {
    f("path", path, "file, glob or folder; .json, .jsonl");
    f("type", type, "row format: auto, prompt_completion, text, tokenized");
    f("split", split, "name shown in logs");
    f("weight", weight, "how often each of its samples is taken in a pass");
    f("max_samples", max_samples, "only its first n samples");
    f("columns", columns, "renames: {\"prompt\": \"question\", \"response\": \"answer\"}");
    f("source_lang", source_lang, "translation only");
    f("target_lang", target_lang, "translation only");
    f("source_prefix", source_prefix, "translation only: the task's prefix");
  }
};

struct DataConfig {
  std::vector<DatasetConfig> datasets;
  std::vector<DatasetConfig> eval_datasets;  // null in JSON = none
  double val_set_size = 0;                   // held out from datasets: a count if >= 1, a fraction if < 1
  std::int64_t max_seq_length = 1024;        // tokens
  std::int64_t max_source_length = 1024, max_target_length = 128;  // encoder-decoders
  std::string truncation = "keep_start";
  bool packing = false;
  std::string packing_strategy = "bfd";
  std::int64_t pad_to_multiple_of = 8;
  bool pad_to_max_length = false;
  bool train_on_inputs = false;
  std::vector<std::string> roles_to_train{"assistant"};
  std::string train_on_eos = "turn";
  std::optional<std::string> chat_template;
  std::string prompt_template = "alpaca";
  bool shuffle = true;
  std::optional<std::int64_t> data_seed;  // null = training.seed
  bool streaming = false;
  std::int64_t shuffle_buffer_size = 16384;
  std::int64_t preprocessing_num_workers = 4;
  std::optional<std::string> dataset_prepared_path;

  void fields(auto& f) {
    f("datasets", datasets, "what to train on");
    f("eval_datasets", eval_datasets, "what to evaluate on, same form as datasets");
    f("val_set_size", val_set_size, "held out from datasets: a count if >= 1, a fraction if < 1");
    f("max_seq_length", max_seq_length, "tokens of a sample, or of a pack of samples");
    f("max_source_length", max_source_length, "encoder-decoders: tokens of the source");
    f("max_target_length", max_target_length, "encoder-decoders: tokens of the target");
    f("truncation", truncation, "samples that are too long: keep_start, keep_end, drop, error");
    f("packing", packing, "put several samples, isolated, into max_seq_length");
    f("packing_strategy", packing_strategy, "bfd (best fit decreasing)");
    f("pad_to_multiple_of", pad_to_multiple_of, "padding granularity where padding is asked for");
    f("pad_to_max_length", pad_to_max_length, "pad every sequence to max_seq_length: static shapes");
    f("train_on_inputs", train_on_inputs, "keep the loss on the prompt too");
    f("roles_to_train", roles_to_train, "chat data: whose turns are trained");
    f("train_on_eos", train_on_eos, "chat data: end tokens that are trained: turn, last, all, none");
    f("chat_template", chat_template, "chat data: tokenizer's own if null, a .jinja file, or a template");
    f("prompt_template", prompt_template, "alpaca data: its wording: alpaca, none");
    f("shuffle", shuffle, "another order in each epoch");
    f("data_seed", data_seed, "of shuffling and the held-out split; null: training.seed");
    f("streaming", streaming, "read without indexing");
    f("shuffle_buffer_size", shuffle_buffer_size, "streaming only");
    f("preprocessing_num_workers", preprocessing_num_workers, "tokenizer threads");
    f("dataset_prepared_path", dataset_prepared_path, "cache of tokenized data");
  }
};

}  // namespace ft
