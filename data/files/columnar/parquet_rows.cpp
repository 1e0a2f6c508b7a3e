// Builds the rows of a Parquet file from its columns.
#include <algorithm>

#include "data/files/columnar/parquet_column.h"
#include "data/files/columnar/rows.h"
#include "data/files/file_formats.h"
#include "data/files/json_quote.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

// Levels that belong to a place in a row: a value there has this repetition level, and at least this
// definition level.
struct Spot {
  int repetition = 0, definition = 0;
};

// The columns of a row group that are read; makes rows of them.
class Group {
 public:
  Group(const InputFile& file, const ParquetFooter& footer, const RowGroup& group,
        const std::vector<const Node*>& wanted)
      : wanted_(wanted), left_(group.rows) {
    columns_.resize(group.columns.size());
    for (const Node* node : wanted) open(file, footer, group, *node);
  }

  bool next(std::string& row) {
    if (left_ == 0) return finish();
    --left_;
    row = "{";
    for (const Node* node : wanted_) {
      put_name(*node, row);
      put_node(*node, {}, row);
    }
    row += '}';
    check_row_size(row);
    return true;
  }

  // Returns the column that was read last, for error messages.
  std::string place() const {
    return current_
               ? str("column ", printable(current_->name(), 40), ", page at byte ", current_->page(), ": ")
               : "";
  }

 private:
  void open(const InputFile& file, const ParquetFooter& footer, const RowGroup& group, const Node& node) {
    for (const Node& child : node.children) open(file, footer, group, child);
    if (node.kind != Node::Kind::leaf) return;
    try {
      columns_[node.first] =
          std::make_unique<ParquetColumn>(file, node, group.columns[node.first], footer.offset, held_);
    } catch (const Damage& damage) {
      throw Damage(str("column ", printable(node.name, 40), ": ", damage.what()));
    }
  }

  bool finish() {
    for (const auto& column : columns_)
      if (column) check(column->at_end(), "a column with more values than rows");
    return false;
  }

  // Returns the column of a leaf. Throws Damage if its current value does not belong to that place.
  ParquetColumn& column(std::size_t leaf, const Spot& spot) {
    ParquetColumn& c = *columns_[leaf];
    current_ = &c;
    check(!c.at_end(), "a column with fewer values than rows");
    check(c.repetition() == spot.repetition && c.definition() >= spot.definition,
          "levels that contradict those of the columns beside it");
    return c;
  }

  // Skips a node that is null: all of its columns must have a lower definition level than `below`.
  void skip(const Node& node, const Spot& spot, int below) {
    for (std::size_t leaf = node.first; leaf < node.end; ++leaf) {
      ParquetColumn& c = column(leaf, spot);
      check(c.definition() < below, "levels that contradict those of the columns beside it");
      c.advance();
    }
  }

  static void put_name(const Node& node, std::string& to) {
    if (to.back() != '{') to += ", ";
    quote_json(node.name, to);
    to += ": ";
  }

  void put_node(const Node& node, const Spot& spot, std::string& to) {
    check_row_size(to);
    ParquetColumn& first = column(node.first, spot);
    if (first.definition() < node.definition) {
      to += "null";
      return skip(node, spot, node.definition);
    }
    switch (node.kind) {
      case Node::Kind::leaf:
        put(node.meaning, first.value(), to);
        return first.advance();
      case Node::Kind::structure:
        to += '{';
        for (const Node& child : node.children)
          put_member(
              child.name,
              [&] {
                put_node(child, {spot.repetition, node.definition}, to);
              },
              to);
        to += '}';
        return;
      case Node::Kind::list:
      case Node::Kind::map:
        return put_items(node, first, spot, to);
    }
  }

  void put_items(const Node& node, ParquetColumn& first, Spot spot, std::string& to) {
    const bool object = node.kind == Node::Kind::map && node.children[0].kind == Node::Kind::leaf &&
                        node.children[0].meaning.kind == Meaning::Kind::text;
    to += object ? '{' : '[';
    if (first.definition() < node.item_definition) {
      skip(node, {spot.repetition, node.definition}, node.item_definition);
    } else {
      spot.definition = node.item_definition;
      put_item(node, object, spot, to);
      spot.repetition = node.repetition;
      while (first.repetition() == node.repetition) {
        to += ", ";
        put_item(node, object, spot, to);
      }
    }
    to += object ? '}' : ']';
  }

  void put_item(const Node& node, bool object, const Spot& spot, std::string& to) {
    if (node.kind == Node::Kind::list) return put_node(node.children[0], spot, to);
    const Node &key = node.children[0], &value = node.children[1];
    if (!object) to += '[';
    check(!object || column(key.first, spot).definition() >= key.definition, "a map with a key that is null");
    put_node(key, spot, to);
    to += object ? ": " : ", ";
    put_node(value, spot, to);
    if (!object) to += ']';
  }

  const std::vector<const Node*>& wanted_;
  std::int64_t left_;  // rows left
  Held held_;
  std::vector<std::unique_ptr<ParquetColumn>> columns_;  // null: not read
  const ParquetColumn* current_ = nullptr;
};

class ParquetRows : public RowReader {
 public:
  explicit ParquetRows(const DataFile& file) : name_(file.name), file_(file.path.string()) {
    try {
      footer_ = read_footer(file_);
      row_ = make_tree(footer_.schema);
      for (const RowGroup& group : footer_.groups) {
        check(group.rows <= footer_.rows - rows_, "row groups with more rows than the file");
        rows_ += group.rows;
      }
      check(rows_ == footer_.rows, "row groups with fewer rows than the file");
    } catch (const Damage& damage) {
      throw UserError(Exit::input, str(printable(name_), ": ", damage.what()));
    }
    for (const Node& column : row_.children) wanted_.push_back(&column);
  }

  std::optional<std::vector<std::string>> columns() const override {
    std::vector<std::string> names;
    for (const Node& column : row_.children) names.push_back(column.name);
    return names;
  }
  void read_only(std::span<const std::string> names) override {
    std::erase_if(wanted_, [&](const Node* column) {
      return std::find(names.begin(), names.end(), column->name) == names.end();
    });
  }

  bool next(Row& row) override {
    row.line = done_ + 1;
    try {
      while (!group_ || !group_->next(row.text)) {
        group_.reset();
        if (next_group_ == footer_.groups.size()) return false;
        group_ = std::make_unique<Group>(file_, footer_, footer_.groups[next_group_++], wanted_);
      }
    } catch (const Damage& damage) {
      Place{&name_, row.line}.fail((group_ ? group_->place() : "") + damage.what());
    }
    ++done_;
    return true;
  }

  std::int64_t bytes_read() const override {
    if (done_ == rows_) return file_.size();
    return static_cast<std::int64_t>(static_cast<double>(file_.size()) * static_cast<double>(done_) /
                                     static_cast<double>(rows_));
  }

 private:
  std::string name_;
  InputFile file_;
  ParquetFooter footer_;
  Node row_;
  std::vector<const Node*> wanted_;
  std::unique_ptr<Group> group_;
  std::size_t next_group_ = 0;
  std::int64_t rows_ = 0, done_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_parquet(const DataFile& file) { return std::make_unique<ParquetRows>(file); }

}  // namespace ft::columnar

namespace ft {

const FileFormat file_formats::kParquet{
    .endings = {".parquet"}, .open = columnar::open_parquet, .compresses = true};

}  // namespace ft
