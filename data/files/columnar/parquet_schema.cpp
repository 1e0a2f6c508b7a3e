#include "data/files/columnar/parquet_schema.h"

#include <algorithm>

#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

struct Levels {
  int definition = 0, repetition = 0, depth = 0;
  Levels item() const { return {definition + 1, repetition + 1, depth + 1}; }
};

class TreeMaker {
 public:
  explicit TreeMaker(const std::vector<SchemaElement>& schema) : schema_(schema) {}

  Node row() {
    Node row = content(next(), {});
    check(at_ == schema_.size(), "a schema with more columns than its groups have");
    check(row.kind == Node::Kind::structure, "a schema that is not a group of columns");
    return row;
  }

 private:
  const SchemaElement& next() {
    check(at_ < schema_.size(), "a schema with fewer columns than its groups have");
    return schema_[at_++];
  }
  const SchemaElement* ahead(std::size_t by) const {
    return at_ + by < schema_.size() ? &schema_[at_ + by] : nullptr;
  }

  // Reads an element with its repetition. A repeated element is a list, even without a LIST annotation.
  Node element(Levels levels) {
    const SchemaElement& e = next();
    if (e.repetition == Repetition::repeated) return list_of(e.name, levels, content(e, levels.item()));
    const bool optional = e.repetition == Repetition::optional;
    levels.definition += optional;
    Node node = content(e, levels);
    node.optional = optional;
    return node;
  }

  Node list_of(const std::string& name, const Levels& levels, Node item) {
    Node list{.name = name, .kind = Node::Kind::list, .definition = levels.definition};
    list.item_definition = levels.definition + 1;
    list.repetition = levels.repetition + 1;
    list.first = item.first;
    list.end = item.end;
    list.children.push_back(std::move(item));
    return list;
  }

  Node content(const SchemaElement& e, const Levels& levels) {
    check(levels.depth <= kDeepest, "a schema that is nested too deeply");
    check(is_utf8(e.name), "a column whose name is not UTF-8");
    const Levels inner{levels.definition, levels.repetition, levels.depth + 1};
    if (e.type) {
      Node leaf{.name = e.name, .definition = levels.definition, .repetition = levels.repetition};
      leaf.type = *e.type;
      leaf.meaning = e.meaning;
      leaf.first = leaves_++;
      leaf.end = leaves_;
      return leaf;
    }
    const SchemaElement* inside = ahead(0);
    const bool repeats = e.children == 1 && inside && inside->repetition == Repetition::repeated;
    if (repeats && e.group == GroupKind::list) return list_of(e.name, inner, item(e, inner));
    if (repeats && e.group == GroupKind::map && inside->children == 2) return map(e, inner);
    return structure(e, inner);
  }

  // Reads the item of a list: the content of its repeated group or, from older writers, that group.
  Node item(const SchemaElement& list, const Levels& levels) {
    const SchemaElement& repeated = next();
    const SchemaElement* only = repeated.children == 1 ? ahead(0) : nullptr;
    const bool wrapped = !repeated.type && only && only->repetition != Repetition::repeated &&
                         repeated.name != "array" && repeated.name != list.name + "_tuple";
    return wrapped ? element(levels.item()) : content(repeated, levels.item());
  }

  Node map(const SchemaElement& e, const Levels& levels) {
    next();  // the repeated pair
    Node map = list_of(e.name, levels, element(levels.item()));
    map.kind = Node::Kind::map;
    map.children.push_back(element(levels.item()));
    map.end = map.children.back().end;
    return map;
  }

  Node structure(const SchemaElement& e, const Levels& levels) {
    check(e.children > 0, "a group without columns");
    Node group{.name = e.name, .kind = Node::Kind::structure, .definition = levels.definition};
    group.first = leaves_;
    for (std::int32_t i = 0; i < e.children; ++i) group.children.push_back(element(levels));
    group.end = leaves_;
    check_names(group);
    return group;
  }

  static void check_names(const Node& group) {
    std::vector<std::string_view> names;
    for (const Node& child : group.children) names.push_back(child.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) throw Damage(str("two columns are called ", printable(*twice, 40)));
  }

  const std::vector<SchemaElement>& schema_;
  std::size_t at_ = 0, leaves_ = 0;
};

}  // namespace

Node make_tree(const std::vector<SchemaElement>& schema) { return TreeMaker(schema).row(); }

}  // namespace ft::columnar
