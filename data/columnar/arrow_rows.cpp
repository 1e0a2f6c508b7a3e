// Reads the messages of an Arrow stream, or of a file, which is a stream between two marks with a footer
// (arrow.apache.org/docs/format/Columnar.html, "IPC").
#include <algorithm>
#include <set>

#include "data/columnar/arrow_array.h"
#include "data/columnar/rows.h"
#include "data/json_quote.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

constexpr std::int64_t kLargestMetadata = std::int64_t{64} << 20;
constexpr Bytes kMark = "ARROW1";

struct Message {
  enum Kind : std::uint8_t { schema = 1, dictionary = 2, batch = 3 };

  std::string metadata;
  std::int64_t body = 0, size = 0;  // where its body lies

  FlatTable root() const { return FlatTable::root(metadata); }
  std::uint8_t kind() const { return root().number<std::uint8_t>(1, 0); }
  FlatTable header() const {
    const auto table = root().table(2);
    check(table.has_value(), "a message without a header");
    return *table;
  }
  bool unions_valid() const { return root().number<std::int16_t>(0, 0) < 4; }  // before version 5
};

class Messages {
 public:
  explicit Messages(const InputFile& file) : file_(file), end_(file.size()) {
    if (text(0, kMark.size()) != kMark) return;
    check(file_.size() >= 20 && text(file_.size() - 6, 6) == kMark,
          "damaged or cut short: an Arrow file ends with ARROW1");
    const std::int64_t footer = number<std::int32_t>(file_.size() - 10);
    check(footer >= 0 && footer <= file_.size() - 18,
          "damaged or cut short: its footer is longer than the file");
    at_ = 8;
    end_ = file_.size() - 10 - footer;
  }

  std::int64_t at() const { return at_; }

  // False at the end.
  bool next(Message& m) {
    if (at_ == end_) return false;
    check(end_ - at_ >= 4, "cut short");
    std::int64_t length = number<std::uint32_t>(at_);
    at_ += 4;
    if (length == 0xFFFFFFFF) {  // absent in the older format
      check(end_ - at_ >= 4, "cut short");
      length = number<std::uint32_t>(at_);
      at_ += 4;
    }
    if (length == 0) {
      at_ = end_;
      return false;
    }
    check(length <= end_ - at_ && length <= kLargestMetadata,
          "metadata that is longer than the file or 64 MiB");
    m.metadata = text(at_, static_cast<std::size_t>(length));
    at_ += length;
    m.body = at_;
    m.size = m.root().number<std::int64_t>(3, 0);
    check(m.size >= 0 && m.size <= end_ - at_, "cut short: a message is longer than the file");
    at_ += m.size;
    return true;
  }

 private:
  std::string text(std::int64_t at, std::size_t size) const {
    std::string bytes(std::min(size, static_cast<std::size_t>(file_.size() - at)), '\0');
    file_.read(at, bytes.data(), static_cast<std::int64_t>(bytes.size()));
    return bytes;
  }
  template <class T>
  T number(std::int64_t at) const {
    return little<T>(text(at, sizeof(T)));
  }

  const InputFile& file_;
  std::int64_t at_ = 0, end_;
};

class ArrowRows : public RowReader {
 public:
  explicit ArrowRows(const DataFile& file) try
      : name_(file.name), file_(file.path.string()), messages_(file_) {
    Message first;
    check(messages_.next(first) && first.kind() == Message::schema,
          "no Arrow file: it begins with no schema");
    fields_ = read_arrow_schema(first.header());
    wanted_.assign(fields_.size(), true);
    std::set<std::string_view> names;
    for (const ArrowField& f : fields_)
      if (!names.insert(f.name).second) throw Damage(str("two columns are called ", printable(f.name, 40)));
  } catch (const Damage& damage) {
    throw UserError(Exit::input, str(printable(file.name), ": ", damage.what()));
  }

  std::optional<std::vector<std::string>> columns() const override {
    std::vector<std::string> names;
    for (const ArrowField& f : fields_) names.push_back(f.name);
    return names;
  }
  void read_only(std::span<const std::string> names) override {
    for (std::size_t i = 0; i < fields_.size(); ++i)
      wanted_[i] = std::find(names.begin(), names.end(), fields_[i].name) != names.end();
  }

  bool next(Row& row) override {
    row.line = done_ + 1;
    try {
      while (row_ == rows_)
        if (!next_batch()) return false;
      put_row(row.text);
    } catch (const Damage& damage) {
      const std::string where = column_ ? str("column ", printable(column_->name, 40)) : std::string("batch");
      Place{&name_, row.line}.fail(str(where, ", message at byte ", begin_, ": ", damage.what()));
    }
    ++row_;
    ++done_;
    return true;
  }

  std::int64_t bytes_read() const override {
    if (ended_) return file_.size();
    const double part = rows_ == 0 ? 0 : static_cast<double>(row_) / static_cast<double>(rows_);
    return begin_ + static_cast<std::int64_t>(part * static_cast<double>(messages_.at() - begin_));
  }

 private:
  // The next message; false at the end.
  bool next_batch() {
    column_ = nullptr;
    arrays_.clear();
    begin_ = messages_.at();
    Message m;
    ended_ = !messages_.next(m);
    if (ended_) return false;
    const ArrowBatch::Body body{file_, m.body, m.size, m.unions_valid()};
    if (m.kind() == Message::dictionary) read_dictionary(m.header(), body);
    if (m.kind() == Message::batch) read_batch(m.header(), body);
    check(m.kind() == Message::dictionary || m.kind() == Message::batch,
          "a message of a kind that is not read");
    return true;
  }

  void read_batch(const FlatTable& header, const ArrowBatch::Body& body) {
    held_ = {};
    ArrowBatch batch(header, body, dictionaries_, held_);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      column_ = &fields_[i];
      ArrowArray array = batch.take(fields_[i], wanted_[i]);
      check(array.length() == batch.rows(), "more or fewer values than its batch has rows");
      if (wanted_[i]) arrays_.emplace_back(&fields_[i], std::move(array));
    }
    column_ = nullptr;
    rows_ = batch.rows();
    row_ = 0;
  }

  void read_dictionary(const FlatTable& header, const ArrowBatch::Body& body) {
    const auto id = header.number<std::int64_t>(0, 0);
    const auto data = header.table(1);
    check(data.has_value(), "a dictionary without values");
    const ArrowField* field = nullptr;
    for (std::size_t i = 0; i < fields_.size() && !field; ++i)
      if (wanted_[i]) field = with_dictionary(fields_[i], id);
    if (!field) return;
    ArrowDictionary& dictionary = dictionaries_[id];
    if (!header.truth(2)) {  // it replaces what is there
      held_by_dictionaries_.add(-dictionary.bytes);
      dictionary = {};
    }
    const std::int64_t before = held_by_dictionaries_.bytes();
    ArrowBatch batch(*data, body, dictionaries_, held_by_dictionaries_);
    ArrowArray part = batch.take(*field, true, true);
    dictionary.bytes += held_by_dictionaries_.bytes() - before;
    if (part.length() > 0) dictionary.parts.push_back(std::move(part));
  }

  static const ArrowField* with_dictionary(const ArrowField& field, std::int64_t id) {
    if (field.dictionary == id) return &field;
    for (const ArrowField& child : field.children)
      if (const ArrowField* found = with_dictionary(child, id)) return found;
    return nullptr;
  }

  void put_row(std::string& row) {
    row = "{";
    for (auto& [field, array] : arrays_) {
      column_ = field;
      if (row.size() > 1) row += ", ";
      quote_json(field->name, row);
      row += ": ";
      array.put(row_, 0, row);
    }
    row += '}';
    check_row_size(row);
  }

  std::string name_;
  InputFile file_;
  Messages messages_;
  std::vector<ArrowField> fields_;
  std::vector<bool> wanted_;
  ArrowDictionaries dictionaries_;
  Held held_, held_by_dictionaries_;                              // the batch, all of them
  std::vector<std::pair<const ArrowField*, ArrowArray>> arrays_;  // of the batch
  std::int64_t row_ = 0, rows_ = 0;                               // of the batch
  std::int64_t done_ = 0, begin_ = 0;                             // rows; where the batch begins
  bool ended_ = false;
  const ArrowField* column_ = nullptr;  // that is read
};

}  // namespace

std::unique_ptr<RowReader> open_arrow(const DataFile& file) { return std::make_unique<ArrowRows>(file); }

}  // namespace ft::columnar
