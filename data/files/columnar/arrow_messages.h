// Reads the messages of an Arrow stream, or of a file, whose footer has the schema and the places of the
// other messages (arrow.apache.org/docs/format/Columnar.html, "IPC"; github.com/apache/arrow,
// format/File.fbs).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/files/columnar/flatbuffer.h"
#include "engine/files/file.h"

namespace ft::columnar {

struct ArrowMessage {
  enum Kind : std::uint8_t { schema = 1, dictionary = 2, batch = 3 };

  std::string metadata;
  std::int64_t body = 0, size = 0;  // the body's place in the file

  FlatTable root() const { return FlatTable::root(metadata); }
  std::uint8_t kind() const { return root().number<std::uint8_t>(1, 0); }
  FlatTable header() const;
  bool unions_valid() const { return root().number<std::int16_t>(0, 0) < 4; }  // before version 5
};

class ArrowMessages {
 public:
  // The file must outlive this object. Throws Damage, as next() does.
  explicit ArrowMessages(const InputFile& file);

  FlatTable schema() const;                // lives as long as the messages
  std::int64_t at() const { return at_; }  // where the next message begins
  // Reads the next dictionary or batch; returns false at the end.
  bool next(ArrowMessage& m);

 private:
  void read_footer();
  void go_to_next_block();
  std::string text(std::int64_t at, std::size_t size) const;
  template <class T>
  T number(std::int64_t at) const {
    return little<T>(text(at, sizeof(T)));
  }

  const InputFile& file_;
  std::int64_t at_ = 0, end_;
  std::string about_;  // the footer, or the message with the schema
  bool is_file_ = false;
  std::vector<std::int64_t> blocks_;  // of a file: offsets of its messages
  std::size_t next_block_ = 0;
};

}  // namespace ft::columnar
