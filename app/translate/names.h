// Names and values that several programs write in the same way.
#pragma once
#include <string>

#include "app/translate/flag.h"

namespace ft::translate {

// Returns ft's name of an optimizer of transformers: adamw_torch is adamw. Names that ft does not have
// stay, and its reader refuses them. A name that means nearly the same adds a reason to the row of `key`.
std::string optimizer_name(const std::string& name, const std::string& key, Draft&);
// Returns {"momentum": 0.9} and the like as "momentum=0.9"; texts stay.
std::string optimizer_arguments(const Json&);

// Sets what the key `fp8` of axolotl and LLaMA-Factory means: products in FP8. Call it once finetuning_type
// is set.
void choose_fp8(const Given&, Draft&);

// Returns a regular expression that matches exactly the text.
std::string escaped(const std::string& text);

// Splits "a, b" at its commas, without blanks at the ends of words.
std::vector<std::string> comma_separated(const std::string& text);

// Sets the source of a data set: ft's file or id. `slice` of "train[:10%]" becomes a weight or a number of
// rows; others are rejected at `key`.
void set_split(Json& source, const std::string& split, const std::string& key, Draft&);

// Answers that are generated need a reward. Functions in Python, given by `key`, become
// objective.reward_command, a program that the user writes; so does no reward at all ("": none), unless
// there is a reward model.
void choose_reward_program(const std::string& key, bool has_model, Draft&);

}  // namespace ft::translate
