// Prints training samples for people and for programs (ft data show).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "app/screen/screen.h"
#include "data/rows/dataset.h"
#include "data/tokenizers/tokenizer.h"

namespace ft {

// Prints one JSON object a line: input_ids, labels, source.
void show_samples_json(const Dataset& data, std::optional<std::int64_t> limit, Screen& out);

// Prints a sample: a line that begins with `title`, and its text. Lines that begin with + are trained; |
// separates tokens, and special tokens are shown by name. Without a tokenizer prints the ids.
void show_sample(const Dataset& data, std::int64_t i, const std::string& title, const Tokenizer* tokenizer,
                 Screen& out);

// Prints up to `limit` samples, and a line about all.
void show_samples(const Dataset& data, const Tokenizer* tokenizer, std::int64_t limit, Screen& out);

}  // namespace ft
