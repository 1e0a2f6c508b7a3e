// Training samples for people and for programs: what `ft data show` prints.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "app/screen/screen.h"
#include "data/rows/dataset.h"
#include "data/tokenizers/tokenizer.h"

namespace ft {

// One JSON object a line: input_ids, labels, source.
void show_samples_json(const Dataset& data, std::optional<std::int64_t> limit, Screen& out);

// A sample: a line that begins with `title`, and its text. Lines that begin with + are trained; tokens are
// parted by |, special ones shown by name. Without a tokenizer the ids themselves.
void show_sample(const Dataset& data, std::int64_t i, const std::string& title, const Tokenizer* tokenizer,
                 Screen& out);

// Some of them, and a line about all.
void show_samples(const Dataset& data, const Tokenizer* tokenizer, std::int64_t limit, Screen& out);

}  // namespace ft
