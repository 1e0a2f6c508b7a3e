// The programs whose command lines are translated.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "app/translate/flag.h"

namespace ft::translate {

// transformers' TrainingArguments and Seq2SeqTrainingArguments (4.x and 5.17). If a default differs from
// ft's, it is written into the draft.
std::span<const Flag> training_arguments();
void finish_training_arguments(const Given&, Draft&);

// transformers' examples/pytorch/translation/run_translation.py
std::span<const Flag> run_translation_flags();
void finish_run_translation(const Given&, Draft&);

// DeepSpeedExamples' applications/DeepSpeed-Chat/training/step1_supervised_finetuning/main.py
std::span<const Flag> deepspeed_chat_flags();
void finish_deepspeed_chat(const Given&, Draft&);

// Takes the words of a launcher (deepspeed, torchrun, accelerate launch, python) and of the environment
// (NAME=VALUE) from the front. Returns the program's name, and leaves its flags in `words`.
std::string take_launcher(std::vector<std::string>& words, Draft&);

// Returns the rows of a launcher's own flags, for tests and documentation.
std::span<const Flag> launcher_options(const std::string& launcher);

}  // namespace ft::translate
