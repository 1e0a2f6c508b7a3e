// What is done to a text before it is cut into pieces: `normalizer` of tokenizer.json.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/json.h"

namespace ft {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(std::string& text) const = 0;  // text: UTF-8
};

// The normalizers in their order; none when there is no such key. UserError (exit 3) for a type that is not
// known.
std::vector<std::unique_ptr<Normalizer>> read_normalizers(const JsonObject& tokenizer);

// The table of the normalizer Precompiled, in its own bytes; empty: there is none.
std::string precompiled_table(const JsonObject& tokenizer);
// Precompiled, of a table. Throws std::invalid_argument as Charsmap does.
std::unique_ptr<Normalizer> make_precompiled(std::string_view table);

}  // namespace ft
