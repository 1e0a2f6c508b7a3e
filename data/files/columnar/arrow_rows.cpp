// Builds the rows of an Arrow stream or file from its batches.
#include <algorithm>
#include <set>

#include "data/files/columnar/arrow_array.h"
#include "data/files/columnar/arrow_messages.h"
#include "data/files/columnar/rows.h"
#include "data/files/file_formats.h"
#include "data/files/json_quote.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

class ArrowRows : public RowReader {
 public:
  explicit ArrowRows(const DataFile& file) try
      : name_(file.name), file_(file.path.string()), messages_(file_) {
    fields_ = read_arrow_schema(messages_.schema());
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
  // Reads the next batch; returns false at the end.
  bool next_batch() {
    column_ = nullptr;
    arrays_.clear();
    begin_ = messages_.at();
    ArrowMessage m;
    ended_ = !messages_.next(m);
    if (ended_) return false;
    const ArrowBatch::Body body{file_, m.body, m.size, m.unions_valid()};
    if (m.kind() == ArrowMessage::dictionary) read_dictionary(m.header(), body);
    if (m.kind() == ArrowMessage::batch) read_batch(m.header(), body);
    check(m.kind() == ArrowMessage::dictionary || m.kind() == ArrowMessage::batch,
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
    if (!header.truth(2)) {  // the dictionary is replaced
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
  ArrowMessages messages_;
  std::vector<ArrowField> fields_;
  std::vector<bool> wanted_;
  ArrowDictionaries dictionaries_;
  Held held_, held_by_dictionaries_;                              // the batch's memory; all dictionaries'
  std::vector<std::pair<const ArrowField*, ArrowArray>> arrays_;  // the batch's columns
  std::int64_t row_ = 0, rows_ = 0;                               // in the batch
  std::int64_t done_ = 0, begin_ = 0;                             // rows before the batch; the batch's offset
  bool ended_ = false;
  const ArrowField* column_ = nullptr;  // the column that is being read
};

}  // namespace

std::unique_ptr<RowReader> open_arrow(const DataFile& file) { return std::make_unique<ArrowRows>(file); }

}  // namespace ft::columnar

namespace ft {

const FileFormat file_formats::kArrow{
    .endings = {".arrow"}, .open = columnar::open_arrow, .compresses = true};

}  // namespace ft
