// The functions that a conversation may call.
#pragma once
#include <string>

#include "data/format.h"
#include "engine/io/json.h"

namespace ft {

// Those of a row's column `tools`, a list of schemas or JSON text of one; of rows without it data.tools.
class ChatTools {
 public:
  explicit ChatTools(const FormatContext&);
  // Null: none. A row that has null has none either.
  Json of(const Json& row, const Place& at) const;

 private:
  std::string name_;
  Json usual_;
};

}  // namespace ft
