// The settings under `data` in a run's configuration. Reading and checking JSON is engine/settings/fields.h's
// business.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/row_format.h"
#include "engine/core/chosen.h"
#include "engine/core/rules.h"

namespace ft {

using RowType = Chosen<RowFormat>;

// Treatment of a sample that is too long.
enum class Truncation : std::uint8_t { keep_start, keep_end, drop, error };
constexpr auto words(Truncation) {
  using enum Truncation;
  return to_words<Truncation>(
      {{keep_start, "keep_start"}, {keep_end, "keep_end"}, {drop, "drop"}, {error, "error"}});
}

// bfd: best fit, longest first; a sample is one piece. bfd_split: the same, with samples that are longer than
// a pack cut into pieces. wrapped: samples one behind another, cut wherever a pack is full.
enum class PackingStrategy : std::uint8_t { bfd, bfd_split, wrapped };
constexpr auto words(PackingStrategy) {
  using enum PackingStrategy;
  return to_words<PackingStrategy>({{bfd, "bfd"}, {bfd_split, "bfd_split"}, {wrapped, "wrapped"}});
}

// Size of an epoch of several datasets that are mixed by shares: it ends when the first dataset has been used
// up, or when all have.
enum class StoppingStrategy : std::uint8_t { first_exhausted, all_exhausted };
constexpr auto words(StoppingStrategy) {
  using enum StoppingStrategy;
  return to_words<StoppingStrategy>({{first_exhausted, "first_exhausted"}, {all_exhausted, "all_exhausted"}});
}

enum class TrainOnEos : std::uint8_t { turn, last, all, none };
constexpr auto words(TrainOnEos) {
  using enum TrainOnEos;
  return to_words<TrainOnEos>({{turn, "turn"}, {last, "last"}, {all, "all"}, {none, "none"}});
}

enum class ChatRole : std::uint8_t { assistant, user, system };
constexpr auto words(ChatRole) {
  using enum ChatRole;
  return to_words<ChatRole>({{assistant, "assistant"}, {user, "user"}, {system, "system"}});
}

// Treatment of the thoughts of answers. split: from <think>...</think> in the content to the key that the
// template reads. into_content: from such a key into the content. drop: out of all answers. drop_history: out
// of those before the last user's message.
enum class ReasoningContent : std::uint8_t { split, into_content, drop, drop_history };
constexpr auto words(ReasoningContent) {
  using enum ReasoningContent;
  return to_words<ReasoningContent>(
      {{split, "split"}, {into_content, "inline"}, {drop, "drop"}, {drop_history, "drop_history"}});
}

enum class PromptTemplate : std::uint8_t { alpaca, none };
constexpr auto words(PromptTemplate) {
  using enum PromptTemplate;
  return to_words<PromptTemplate>({{alpaca, "alpaca"}, {none, "none"}});
}

// A source of samples.
struct DatasetConfig {
  std::string path;  // as the user wrote it: a file, a glob, a folder or an id of the hub
  RowType type = &row_formats::kDetected;
  std::optional<std::string> name, split, revision;  // null revision: main
  double weight = 1;  // how often an epoch contains each of its samples; 2 = twice, 0.5 = half of them
  std::optional<std::int64_t> max_samples;     // its first n rows
  std::map<std::string, std::string> columns;  // {"prompt": "question"}: our name -> the file's
  std::optional<std::string> source_lang, target_lang, source_prefix;  // translation
  std::optional<std::string> report_as;                                // name of its losses in the log
  std::string place{};  // of the path in the settings: run.json:5; empty: not known

  void fields(auto& f) {
    f("path", path,
      "File, glob or folder: .parquet, .arrow, or .jsonl, .json, .csv, .tsv or .txt, also as .gz or .zst. Or "
      "the id of a data set in the hub's cache: openai/gsm8k.",
      required(), not_empty(), is_path_or_hub_id());
    f("type", type, "Row format; auto: decided by the names of the columns.");
    f("name", name, "Configuration of a data set that has several, as its card names it.", not_empty());
    f("split", split, "Split of a data set that has several; null: train, or the only one.", not_empty());
    f("revision", revision, "With an id of the hub: a branch, tag or commit; null: main.", not_empty());
    f("weight", weight,
      "Times that an epoch contains each of its samples; 0.5: half of the samples once. With "
      "stopping_strategy: its share of an epoch.",
      above(0));
    f("max_samples", max_samples, "Number of its first samples to use; null: all.", at_least(1));
    f("columns", columns, "Names of its columns: {\"prompt\": \"question\", \"response\": \"answer\"}.");
    f("source_lang", source_lang, "Translation only: language of the prompt, as named in the rows.");
    f("target_lang", target_lang, "Translation only: language of the answer.");
    f("source_prefix", source_prefix, "Translation only: text at the beginning of every prompt.");
    f("report_as", report_as,
      "Name under which the log has its loss: loss/NAME in training, eval_NAME_loss in evaluations. null: "
      "only in the loss of all.",
      not_empty());
  }
};

struct DataConfig {
  std::vector<DatasetConfig> datasets;
  std::vector<DatasetConfig> eval_datasets;  // null in JSON = none
  std::optional<StoppingStrategy> stopping_strategy;
  std::optional<double> mixture_temperature;
  double val_set_size = 0;             // held out from datasets: a count if >= 1, a fraction if < 1
  std::int64_t max_seq_length = 1024;  // tokens
  std::int64_t max_source_length = 1024, max_target_length = 128;  // encoder-decoders
  Truncation truncation = Truncation::keep_start;
  bool packing = false;
  PackingStrategy packing_strategy = PackingStrategy::bfd;
  std::int64_t pad_to_multiple_of = 8;
  bool pad_to_max_length = false;
  bool train_on_inputs = false;
  std::vector<ChatRole> roles_to_train{ChatRole::assistant};
  TrainOnEos train_on_eos = TrainOnEos::turn;
  std::optional<ReasoningContent> reasoning_content;
  bool ignore_empty_think = false, mask_history = false;
  std::optional<std::string> chat_template;
  JsonText tools;                 // schemas of functions
  JsonText chat_template_kwargs;  // an object
  std::vector<std::string> new_tokens, new_special_tokens;
  PromptTemplate prompt_template = PromptTemplate::alpaca;
  bool shuffle = true;
  std::optional<std::int64_t> data_seed;  // null = training.seed
  bool streaming = false;
  std::int64_t shuffle_buffer_size = 16384;
  std::int64_t preprocessing_num_workers = 4;
  std::optional<std::string> dataset_prepared_path;

  void fields(auto& f) {
    f("datasets", datasets, "Training data.", required(), not_empty(), aka({"dataset", "train_file"}));
    f("eval_datasets", eval_datasets, "Evaluation data, in the form of datasets.", or_null(),
      aka({"validation_file"}));
    f("stopping_strategy", stopping_strategy,
      "Mix the datasets by shares, and end an epoch when the first is used up (first_exhausted) or all are "
      "(all_exhausted); weight is then a share. null: weight is how often an epoch has each sample.");
    f("mixture_temperature", mixture_temperature,
      "With stopping_strategy: shares are weight times the dataset's size to the power of 1 / this; 1: by "
      "size, larger: "
      "more even; null: shares are the weights alone.",
      above(0));
    f("val_set_size", val_set_size,
      "Samples held out from datasets for evaluation: a count (1 or more) or a fraction (below 1).",
      at_least(0), whole_from_one());
    f("max_seq_length", max_seq_length, "Longest sample, or pack of samples, in tokens.", at_least(1),
      aka({"sequence_len", "cutoff_len", "max_length", "seq_length"}));
    f("max_source_length", max_source_length, "Encoder-decoders: longest source, in tokens.", at_least(1));
    f("max_target_length", max_target_length, "Encoder-decoders: longest target, in tokens.", at_least(1));
    f("truncation", truncation,
      "Treatment of longer samples: keep the start or the end, drop them, or refuse them.");
    f("packing", packing, "Pack several samples, isolated from each other, into max_seq_length tokens.",
      aka({"sample_packing"}));
    f("packing_strategy", packing_strategy,
      "Placement of samples in packs. bfd: best fit decreasing; bfd_split: the same, with longer samples "
      "split; wrapped: one after another, cut anywhere.");
    f("pad_to_multiple_of", pad_to_multiple_of, "Pad lengths to a multiple of this; needs pad_to_max_length.",
      at_least(1));
    f("pad_to_max_length", pad_to_max_length, "Pad every sequence to max_seq_length.");
    f("train_on_inputs", train_on_inputs, "Include the prompt in the loss.");
    f("roles_to_train", roles_to_train, "Chat data: roles whose turns are trained.");
    f("train_on_eos", train_on_eos,
      "Chat data: end tokens to train: those of trained turns (turn), the last of these (last), all or "
      "none.");
    f("reasoning_content", reasoning_content,
      "Chat data: thoughts of answers: from <think>...</think> to the key that the chat template reads "
      "(split), "
      "from the key into the content (inline), left out everywhere (drop) or before the last user's message "
      "(drop_history); null: as in the row.");
    f("ignore_empty_think", ignore_empty_think,
      "Chat data: leave <think></think> without a thought, and the white space around, out of the loss.");
    f("mask_history", mask_history,
      "Chat data: train only a conversation's last turn of roles_to_train, unless a message says otherwise.");
    f("chat_template", chat_template,
      "Chat data: plain, alpaca, llama2, llama3, chatml, mistral, zephyr or gemma; the name of one of the "
      "model's templates; a .jinja file beside the tokenizer; or a template. null: the model's own.");
    f("tools", tools, "Chat data: tools (a list of functions' schemas) of rows without a `tools` column.");
    f("chat_template_kwargs", chat_template_kwargs,
      "Chat data: variables of the template's own, such as {\"enable_thinking\": false}; a row's column "
      "`chat_template_kwargs` adds to them.");
    f("new_tokens", new_tokens,
      "Words to add to the tokenizer, each as one token; embedding and head grow (docs/data.md).");
    f("new_special_tokens", new_special_tokens,
      "Special tokens to add, such as <|tool|>; decoded text leaves them out.");
    f("prompt_template", prompt_template, "Alpaca data: Stanford's wording, or none.");
    f("shuffle", shuffle, "Shuffle the data in each epoch.");
    f("data_seed", data_seed, "Seed for shuffling and the held-out split; null: training.seed.", at_least(0));
    f("streaming", streaming,
      "Read the files while training, for data larger than memory; needs training.max_steps.");
    f("shuffle_buffer_size", shuffle_buffer_size,
      "With streaming: samples held in memory and shuffled together.", at_least(1));
    f("preprocessing_num_workers", preprocessing_num_workers, "Threads for tokenizing.", at_least(1));
    f("dataset_prepared_path", dataset_prepared_path,
      "Folder that caches tokenized data for later runs; changed data is tokenized again.", is_path());
  }
};

}  // namespace ft
