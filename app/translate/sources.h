// Files for names that the programs load from the Hugging Face Hub: ft reads them from disk. Says where ft
// expects them and how to get them.
#pragma once
#include <string>

#include "app/translate/flag.h"

namespace ft::translate {

// Returns the file for a part of a data set, "wmt16.ro-en.train.jsonl". If it is missing, a warning tells how
// to write it.
std::string exported_part(const std::string& data_set, const std::string& configuration,
                          const std::string& part, Draft&);
// Adds a warning if the model's folder is missing.
void expect_folder(const std::string& model, Draft&);
// True for a T5 model, by config.json if it exists, else by the name. False for mT5, which has no prefixes.
bool is_t5(const std::string& model);

}  // namespace ft::translate
