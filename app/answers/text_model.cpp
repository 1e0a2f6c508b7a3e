#include "app/answers/text_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/config/head_settings.h"
#include "app/files/model_files.h"
#include "data/classify/batch.h"
#include "data/embed/batch.h"
#include "engine/files/file.h"
#include "engine/ops/ops.h"
#include "engine/train/objectives/embedded.h"
#include "engine/train/objectives/host_loss.h"
#include "engine/train/objectives/list.h"

namespace ft {

RunConfig text_model_config(const std::string& model, const std::string& adapter, const std::string& dtype,
                            const std::vector<std::string>& overrides, const std::string& command) {
  Json j;
  j["model"]["model_name_or_path"] = std::filesystem::absolute(model).string();
  j["data"]["datasets"] = Json::array({{{"path", "none"}}});  // no dataset is read
  j["training"]["bf16"] = dtype == "bfloat16";
  j["training"]["fp16"] = dtype == "float16";
  const auto trained = trained_objective(model, adapter);
  const std::string settings = join_path(adapter.empty() ? model : adapter, kSentenceSettings);
  if (path_exists(settings))
    if (const auto most = JsonObject::read(settings).json().value("max_seq_length", Json());
        most.is_number_integer())
      j["data"]["max_seq_length"] = most;
  j["objective"]["type"] = name_of(trained ? trained->type : Chosen<ObjectiveKind>(&objectives::kReward));
  RunConfig c = parse_config(j.dump(), command, "", overrides);
  c.model.model_name_or_path = model;  // as the user wrote it, for messages
  const bool asked =
      std::ranges::any_of(overrides, [](const std::string& o) { return o.starts_with("objective."); });
  if (trained && !asked) c.objective = *trained;
  if (!adapter.empty()) c.lora.adapter_name_or_path = adapter;
  take_head_settings(c);
  if (adapter.empty()) return c;
  // The adapter was trained with its own tokenizer, which may know more tokens.
  if (!c.model.tokenizer_name_or_path && holds_tokenizer(adapter)) c.model.tokenizer_name_or_path = adapter;
  return c;
}

// Keeps the values of a batch's targets.
class TextModel::Kept final : public Objective, private RowLoss {
 public:
  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  void forward(const Pass& p, const Batch& b, Tensor) override {
    Ctx c = p.context;
    c.train = false;
    RowLoss* const kept = this;
    p.policy.model->forward(c, *p.policy.store, b, kept);
  }
  void forward_backward(const Pass&, const Batch&, Tensor, float) override {
    throw InternalError("only values are computed");
  }
  std::vector<float> values;  // values of the last batch

 private:
  void weigh(Ctx& c, const RowValues& v, Tensor) override { values = download(c, v.values); }
};

TextModel::TextModel(const RunConfig& config)
    : run_(config, {.work = Work::compute}, Ranks{}), kept_(std::make_unique<Kept>()) {
  run_.build_model();
}

TextModel::~TextModel() = default;

void TextModel::add(Batch& b, std::span<const std::int32_t> ids) const {
  const ObjectiveConfig& o = config().objective;
  if (o.type->rows == ObjectiveRows::texts)
    add_text(b, ids, o.pooling_mode == PoolingMode::mean ? TextTargets::all : TextTargets::last);
  else
    add_unlabelled(b, ids, built().padding);
}

void TextModel::start(const std::vector<BatchShape>& shapes) {
  run_.request().objective = kept_.get();
  run_.request().eval = shapes;
  run_.plan(
      "a smaller training.per_device_eval_batch_size, --dtype bfloat16, quantization.load_in_4bit=true");
  run_.start();
}

std::vector<float> TextModel::values(const Batch& b) {
  kept_->forward(run_.pass(), b, {});
  return std::move(kept_->values);
}

std::vector<std::vector<float>> TextModel::embeddings(const Batch& b) {
  const Vectors all = embedded(b, values(b));
  const bool normalize = config().objective.normalize_embeddings.value_or(true);
  std::vector<std::vector<float>> rounded;
  for (std::size_t i = 0; i < all.size(); ++i) {
    double squares = 0;
    for (const double x : all[i]) squares += x * x;
    const double length = normalize ? std::max(std::sqrt(squares), 1e-12) : 1;
    std::vector<float>& v = rounded.emplace_back();
    for (const double x : all[i]) v.push_back(static_cast<float>(x / length));
  }
  return rounded;
}

}  // namespace ft
