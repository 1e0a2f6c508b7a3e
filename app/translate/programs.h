// Tables and functions that several programs share, and the launchers of programs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "app/translate/flag.h"

namespace ft::translate {

// transformers' TrainingArguments and Seq2SeqTrainingArguments (4.x and 5.17). If a default differs from
// ft's, it is written into the draft.
std::span<const Flag> training_arguments();
std::span<const Default> training_defaults();
void finish_training_arguments(const Given&, Draft&);

std::span<const Flag> run_translation_flags();
std::span<const Flag> deepspeed_chat_flags();

// Takes the words of a launcher (deepspeed, torchrun, accelerate launch, python) and of the environment
// (NAME=VALUE) from the front. Returns the program's name, and leaves its flags in `words`.
std::string take_launcher(std::vector<std::string>& words, Draft&);

// Takes NAME=VALUE words before a command. Does not show values that ft does not read, because they may be
// secrets.
void take_environment(std::vector<std::string>& words, Draft&);

// Returns the rows of a launcher's own flags, for tests and documentation.
std::span<const Flag> launcher_options(const std::string& launcher);

}  // namespace ft::translate
