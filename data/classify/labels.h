// Labels of a classification in rows: names or numbers.
#pragma once
#include <string>
#include <vector>

#include "data/rows/format.h"
#include "engine/files/json.h"

namespace ft {

class LabelReader {
 public:
  explicit LabelReader(const WantedLabels& labels) : labels_(labels) {}
  // Reads the label of a text: the name or number of a class; or a list, of a number for each label or of the
  // names of the labels that apply. Throws UserError (input) and names the field.
  std::vector<float> text(const Json& label, const std::string& field, const Place& at) const;
  // Reads a token's class, or kIgnored (-100, or null).
  std::int32_t token(const Json& label, const std::string& field, const Place& at) const;

 private:
  std::int32_t one(const Json& label, const std::string& field, const Place& at) const;
  std::vector<float> several(const Json& label, const std::string& field, const Place& at) const;
  std::string known() const;

  WantedLabels labels_;
};

}  // namespace ft
