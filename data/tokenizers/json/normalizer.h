// Changes a text before it is cut into pieces: `normalizer` of tokenizer.json.
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

// Returns the normalizers in their order; none if the key is absent. Throws UserError (input) for an unknown
// type.
std::vector<std::unique_ptr<Normalizer>> read_normalizers(const JsonObject& tokenizer);

// Returns the table of the normalizer Precompiled as bytes; empty: none.
std::string precompiled_table(const JsonObject& tokenizer);
// Makes the normalizer Precompiled from a table. Throws std::invalid_argument as Charsmap does.
std::unique_ptr<Normalizer> make_precompiled(std::string_view table);

}  // namespace ft
