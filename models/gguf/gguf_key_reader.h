// Reads and checks the keys of a GGUF file that describe its model, and finds its tensors.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/formats/gguf/gguf.h"

namespace ft {

// Reads keys. Throws UserError (input) with the file and the key if a key is missing or wrong.
class GgufKeyReader {
 public:
  explicit GgufKeyReader(const GgufFile& file);  // keeps a reference to the file

  const std::string& architecture() const { return architecture_; }
  [[noreturn]] void refuse(const std::string& what) const;

  // Adds the architecture in front of a key: these functions take keys without it, such as
  // "attention.head_count".
  std::string own(const std::string& key) const { return architecture_ + "." + key; }
  bool has(const std::string& key) const { return file_.find(own(key)) != nullptr; }
  std::string text(const std::string& key) const;
  // Returns a positive whole number. A list with an entry for each layer must have equal entries.
  std::int64_t whole(const std::string& key) const;
  std::int64_t whole_or(const std::string& key, std::int64_t otherwise) const {
    return has(key) ? whole(key) : otherwise;
  }
  // Returns whole numbers from 0 on, of a list or of a single number.
  std::vector<std::int64_t> number_list(const std::string& key) const;
  // Returns positive ones.
  std::vector<std::int64_t> whole_list(const std::string& key) const;
  double real(const std::string& key) const;
  double real_or(const std::string& key, double otherwise) const { return has(key) ? real(key) : otherwise; }
  bool flag_or(const std::string& key, bool otherwise) const;

  // Returns the token with a role; nullopt: no token has it.
  std::optional<std::int64_t> token_id(const std::string& role) const;

  const GgufTensor* find_tensor(const std::string& name) const;  // null: not in the file
  bool has_tensor(const std::string& name) const { return find_tensor(name) != nullptr; }
  std::int64_t vocab_size() const;  // rows of the embedding's table
  std::vector<float> read(const GgufTensor& t) const { return file_.read(t); }

 private:
  double number_of(const GgufValue& value, const std::string& key) const;

  const GgufFile& file_;
  std::string architecture_;
};

}  // namespace ft
