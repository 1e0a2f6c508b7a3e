#include "engine/train/reports/hparams.h"

#include <nlohmann/json.hpp>

#include "engine/files/protobuf.h"
#include "engine/train/reports/tracked.h"

namespace ft::tensorboard {
namespace {

using namespace protobuf;  // NOLINT: this file writes messages

// Field numbers of tensorboard's Summary.Value, SummaryMetadata, TensorProto, HParamsPluginData and
// api.proto.
constexpr int kTag = 1, kTensor = 8, kMetadata = 9;
constexpr int kPluginData = 1, kDataClass = 4, kPluginName = 1, kPluginContent = 2;
constexpr int kDtype = 1, kShape = 2, kStrings = 8, kDim = 2, kDimSize = 1;
constexpr int kExperiment = 2, kSessionStartInfo = 3, kSessionEndInfo = 4;
constexpr int kTimeCreated = 3, kHparamInfos = 4, kMetricInfos = 5;
constexpr int kInfoName = 1, kInfoType = 4, kMetricTag = 2;
constexpr int kHparams = 1, kMapKey = 1, kMapValue = 2, kStartTime = 5, kStatus = 1, kEndTime = 2;
constexpr int kNumberValue = 2, kStringValue = 3, kBoolValue = 4;  // fields of google.protobuf.Value

enum DataClass { kClassTensor = 2 };
enum TensorType { kFloats = 1, kTexts = 7 };
enum DataType { kText = 1, kBool = 2, kNumber = 3 };
enum Status { kSuccess = 1, kFailure = 2 };

std::string tensor(TensorType type, std::int64_t size, const std::string& strings) {
  return integer(kDtype, type) + bytes(kShape, bytes(kDim, size ? integer(kDimSize, size) : "")) + strings;
}

std::string value(const std::string& tag, const std::string& plugin, const std::string& content,
                  const std::string& tensor) {
  std::string data = bytes(kPluginName, plugin);
  if (!content.empty()) data += bytes(kPluginContent, content);
  return bytes(kTag, tag) + bytes(kTensor, tensor) +
         bytes(kMetadata, bytes(kPluginData, data) + integer(kDataClass, kClassTensor));
}

// Returns a value whose content the plugin reads; the tensor has no elements.
std::string hparams_value(const std::string& tag, const std::string& content) {
  return value("_hparams_/" + tag, "hparams", content, tensor(kFloats, 0, ""));
}

DataType type_of(const Json& v) { return v.is_boolean() ? kBool : v.is_number() ? kNumber : kText; }

std::string setting(const Json& v) {
  switch (type_of(v)) {
    case kBool:
      return integer(kBoolValue, v.get<bool>());
    case kNumber:
      return real64(kNumberValue, v.get<double>());
    case kText:
      break;
  }
  return bytes(kStringValue, plain_text(v));
}

}  // namespace

std::string text_value(const std::string& tag, std::string_view markdown) {
  return value(tag, "text", "", tensor(kTexts, 1, bytes(kStrings, markdown)));
}

std::string experiment_value(const Settings& settings, const std::vector<std::string>& metrics, double time) {
  std::string experiment = real64(kTimeCreated, time);
  for (const auto& [name, v] : settings)
    if (!v.is_null())
      experiment += bytes(kHparamInfos, bytes(kInfoName, name) + integer(kInfoType, type_of(v)));
  for (const std::string& tag : metrics)
    experiment += bytes(kMetricInfos, bytes(kInfoName, bytes(kMetricTag, tag)));
  return hparams_value("experiment", bytes(kExperiment, experiment));
}

std::string session_start_value(const Settings& settings, double time) {
  std::string start;
  for (const auto& [name, v] : settings)
    if (!v.is_null()) start += bytes(kHparams, bytes(kMapKey, name) + bytes(kMapValue, setting(v)));
  return hparams_value("session_start_info", bytes(kSessionStartInfo, start + real64(kStartTime, time)));
}

std::string session_end_value(bool finished, double time) {
  return hparams_value(
      "session_end_info",
      bytes(kSessionEndInfo, integer(kStatus, finished ? kSuccess : kFailure) + real64(kEndTime, time)));
}

}  // namespace ft::tensorboard
