// What the programs load from the Hugging Face Hub, ft reads from disk: where it is expected, and how it gets
// there.
#pragma once
#include <string>

#include "app/translate/flag.h"

namespace ft::translate {

// The file for a part of a data set, "wmt16.ro-en.train.jsonl". Where it is missing, a warning says how to
// write it.
std::string exported_part(const std::string& data_set, const std::string& configuration,
                          const std::string& part, Draft&);
// A warning where the model's folder is missing.
void expect_folder(const std::string& model, Draft&);
// By config.json if it is there, else by the name. mT5, which has no prefixes, is not meant.
bool is_t5(const std::string& model);

}  // namespace ft::translate
