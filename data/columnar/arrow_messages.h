// The messages of an Arrow stream, or of a file, which is a stream between two marks with a footer
// (arrow.apache.org/docs/format/Columnar.html, "IPC").
#pragma once
#include <cstdint>
#include <string>

#include "data/columnar/flatbuffer.h"
#include "engine/io/file.h"

namespace ft::columnar {

struct ArrowMessage {
  enum Kind : std::uint8_t { schema = 1, dictionary = 2, batch = 3 };

  std::string metadata;
  std::int64_t body = 0, size = 0;  // where its body lies

  FlatTable root() const { return FlatTable::root(metadata); }
  std::uint8_t kind() const { return root().number<std::uint8_t>(1, 0); }
  FlatTable header() const;
  bool unions_valid() const { return root().number<std::int16_t>(0, 0) < 4; }  // before version 5
};

class ArrowMessages {
 public:
  // The file outlives it. Throws Damage, as next() does.
  explicit ArrowMessages(const InputFile& file);

  std::int64_t at() const { return at_; }  // where the next begins
  // False at the end.
  bool next(ArrowMessage& m);

 private:
  std::string text(std::int64_t at, std::size_t size) const;
  template <class T>
  T number(std::int64_t at) const {
    return little<T>(text(at, sizeof(T)));
  }

  const InputFile& file_;
  std::int64_t at_ = 0, end_;
};

}  // namespace ft::columnar
