#include "data/classify/labels.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"

namespace ft {
namespace {

float finite(const Json& value, const std::string& field, const Place& at) {
  const float x = value.is_boolean()  ? (value.get<bool>() ? 1.0f : 0.0f)
                  : value.is_number() ? value.get<float>()
                                      : NAN;
  if (!std::isfinite(x)) at.fail(str(printable(field), ": must be a number, is ", json_excerpt(value)));
  return x;
}

}  // namespace

std::string LabelReader::known() const {
  constexpr std::size_t kShown = 10;
  std::string all;
  for (std::size_t i = 0; i < std::min(kShown, labels_.names.size()); ++i)
    all += str(i == 0 ? "" : ", ", printable(labels_.names[i], 40));
  return labels_.names.size() > kShown ? str(all, " and ", labels_.names.size() - kShown, " more") : all;
}

std::int32_t LabelReader::one(const Json& label, const std::string& field, const Place& at) const {
  const auto n = static_cast<std::int64_t>(labels_.names.size());
  if (label.is_string()) {
    const auto name = std::find(labels_.names.begin(), labels_.names.end(), label.get<std::string>());
    if (name != labels_.names.end()) return static_cast<std::int32_t>(name - labels_.names.begin());
    at.fail(str(printable(field), ": ", json_excerpt(label), " is not one of the labels, ", known(),
                "; objective.id2label names them"));
  }
  if (label.is_boolean() && n == 2) return label.get<bool>() ? 1 : 0;
  if (label.is_array() || label.is_number_float())
    at.fail(str(printable(field), ": one class of ", n, " is wanted, is ", json_excerpt(label),
                "; for labels like this set objective.problem_type to ",
                label.is_array() ? "multi_label_classification or " : "", "regression"));
  if (!label.is_number_integer())
    at.fail(str(printable(field), ": must be a class or its name, is ", json_excerpt(label)));
  if (label < 0 || label >= n)
    at.fail(str(printable(field), ": ", json_excerpt(label), " is none of the ", n, " classes, 0 to ", n - 1,
                "; objective.num_labels sets how many there are"));
  return label.get<std::int32_t>();
}

std::vector<float> LabelReader::several(const Json& label, const std::string& field, const Place& at) const {
  const std::size_t n = labels_.names.size();
  const bool names = label.is_array() && !label.empty() && label.front().is_string();
  if (labels_.kind == LabelKind::several && (names || (label.is_array() && label.empty() && n > 0))) {
    std::vector<float> all(n);
    for (const Json& name : label) all[static_cast<std::size_t>(one(name, field, at))] = 1;
    return all;
  }
  if (n == 1 && !label.is_array()) return {finite(label, field, at)};
  if (!label.is_array() || label.size() != n)
    at.fail(str(printable(field), ": must be a list of ", n, n == 1 ? " number" : " numbers",
                ", one for each label, is ", json_excerpt(label)));
  std::vector<float> all;
  for (const Json& value : label) all.push_back(finite(value, str(field, "[", all.size(), "]"), at));
  return all;
}

std::vector<float> LabelReader::text(const Json& label, const std::string& field, const Place& at) const {
  if (labels_.kind == LabelKind::one_class) return {static_cast<float>(one(label, field, at))};
  std::vector<float> all = several(label, field, at);
  for (const float y : all)
    if (labels_.kind == LabelKind::several && (y < 0 || y > 1))
      at.fail(str(printable(field), ": ", y,
                  " is not from 0 (does not apply) to 1 (applies); for other numbers "
                  "set objective.problem_type to regression"));
  return all;
}

std::int32_t LabelReader::token(const Json& label, const std::string& field, const Place& at) const {
  if (label.is_null() || (label.is_number_integer() && label == kIgnored)) return kIgnored;
  return one(label, field, at);
}

}  // namespace ft
