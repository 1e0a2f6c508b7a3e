#include "tests/models/golden_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <numeric>

#include "engine/model/invocation.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/planner.h"
#include "tests/support/source.h"

namespace ft::test {
namespace {

const std::string kFolder = source_path("tests/golden/models/");

Batch one_sample(const Json& row) {
  Batch b;
  b.input_ids = row["input_ids"].get<std::vector<std::int32_t>>();
  const auto labels = row["labels"].get<std::vector<std::int32_t>>();
  const auto n = static_cast<std::int32_t>(b.input_ids.size());
  b.starts = {0, n};
  for (std::int32_t t = 0; t < n; ++t) {
    b.positions.push_back(t);
    if (t + 1 == n || labels[static_cast<std::size_t>(t + 1)] < 0) continue;
    b.target_rows.push_back(t);
    b.targets.push_back(labels[static_cast<std::size_t>(t + 1)]);
  }
  return b;
}

// Returns a batch for an encoder-decoder. The decoder's input is its output shifted by one token: it begins
// with 0 and has 0 in place of untrained tokens.
Batch one_pair(const Json& row) {
  Batch b;
  b.source_ids = row["input_ids"].get<std::vector<std::int32_t>>();
  b.source_starts = {0, static_cast<std::int32_t>(b.source_ids.size())};
  b.input_ids = {0};
  for (const std::int32_t label : row["labels"].get<std::vector<std::int32_t>>()) {
    const auto at = static_cast<std::int32_t>(b.positions.size());
    b.positions.push_back(at);
    b.input_ids.push_back(std::max(0, label));
    if (label < 0) continue;
    b.target_rows.push_back(at);
    b.targets.push_back(label);
  }
  b.input_ids.pop_back();
  b.starts = {0, static_cast<std::int32_t>(b.input_ids.size())};
  return b;
}

Values download(Ops& ops, const Tensor& x) {
  std::vector<float> values(static_cast<std::size_t>(x.numel()));
  if (x.dtype == DType::f32) {
    ops.download(values.data(), x);
  } else {
    std::vector<std::uint16_t> low(values.size());
    ops.download(low.data(), x);
    const bool half = x.dtype == DType::f16;
    std::transform(low.begin(), low.end(), values.begin(),
                   [half](std::uint16_t v) { return half ? to_float(f16{v}) : to_float(bf16{v}); });
  }
  return {values.begin(), values.end()};
}

void add_squares(double& top, double& bottom, const Values& got, const Values& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    top += (got[i] - want[i]) * (got[i] - want[i]);
    bottom += want[i] * want[i];
  }
}

}  // namespace

double nmse(const Values& got, const Values& want) {
  double top = 0, bottom = 0;
  add_squares(top, bottom, got, want);
  return bottom > 0 ? top / bottom : top;
}

double nmse(const Named& got, const Named& want) {
  double top = 0, bottom = 0;
  EXPECT_EQ(got.size(), want.size());
  for (const auto& [name, values] : want) {
    EXPECT_TRUE(got.contains(name)) << name;
    if (got.contains(name)) add_squares(top, bottom, got.at(name), values);
  }
  return top / bottom;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_rounding(const Values& gradient, const Named& all) {
  const auto squares = [](const Values& v) { return std::inner_product(v.begin(), v.end(), v.begin(), 0.0); };
  double sum = 0;
  for (const auto& [name, values] : all) sum += squares(values);
  return squares(gradient) < 1e-10 * sum;
}

GoldenCase::GoldenCase(const std::string& case_name)
    : name(case_name), folder(kFolder + case_name), json(read_json(folder + "/case.json")) {
  const Json& t = json["training"];
  training.learning_rate = t["learning_rate"];
  training.adam_beta1 = t["adam_beta1"];
  training.adam_beta2 = t["adam_beta2"];
  training.adam_epsilon = t["adam_epsilon"];
  training.weight_decay = t["weight_decay"];
  training.max_grad_norm = t["max_grad_norm"];
  steps = t["steps"];
  const auto read = read_decoder_tokens(model_folder() + "/config.json") ? one_pair : one_sample;
  const std::string text = read_file(folder + "/samples.jsonl", 1 << 20);
  const auto size = json["batch_size"].get<std::size_t>();
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    if (batches.empty() || batches.back().size() == size) batches.emplace_back();
    batches.back().push_back(read(parse_json(std::string_view(text).substr(at, end - at), {name})));
  }
}

Named GoldenCase::expected(const std::string& prefix) const {
  const SafetensorsFile file(folder + "/expected.safetensors");
  Named out;
  for (const StoredTensor& t : file.tensors()) {
    if (!t.name.starts_with(prefix)) continue;
    std::vector<float> values(static_cast<std::size_t>(t.numel));
    file.read(t, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {t.numel}));
    out[t.name.substr(prefix.size())] = {values.begin(), values.end()};
  }
  return out;
}

Batch GoldenCase::join(const std::vector<Batch>& samples) {
  Batch all;
  all.starts = all.source_starts = {0};
  for (const Batch& b : samples) {
    const auto first = static_cast<std::int32_t>(all.tokens());
    all.input_ids.insert(all.input_ids.end(), b.input_ids.begin(), b.input_ids.end());
    all.positions.insert(all.positions.end(), b.positions.begin(), b.positions.end());
    all.targets.insert(all.targets.end(), b.targets.begin(), b.targets.end());
    for (const std::int32_t row : b.target_rows) all.target_rows.push_back(first + row);
    all.starts.push_back(static_cast<std::int32_t>(all.tokens()));
    all.source_ids.insert(all.source_ids.end(), b.source_ids.begin(), b.source_ids.end());
    all.source_starts.push_back(static_cast<std::int32_t>(all.source_ids.size()));
  }
  return all;
}

Batch Dropping::of(Batch b) const {
  const std::vector<std::int32_t>& starts = encoder ? b.source_starts : b.starts;
  std::vector<std::int32_t> kept{0};
  for (std::size_t s = 1; s < starts.size(); ++s)
    kept.push_back(kept.back() + std::min(static_cast<std::int32_t>(most), starts[s] - starts[s - 1]));
  (encoder ? b.kept_source_starts : b.kept_starts) = std::move(kept);
  return b;
}

GoldenRun::GoldenRun(const GoldenCase& c, How how)
    : case_(c),
      generation_(how.generation),
      loss_scale_(how.loss_scale),
      ops_(golden_ops()),
      made_(make_model(c.model_folder() + "/config.json", how.dtype)),
      weights_(c.model_folder()),
      comm_(*ops_),
      store_(*ops_, comm_, ZeroStage::of(0), states_of(case_.training)) {
  made_.model->set_sparse_attention(how.sparse);
  if (c.lora()) {
    adapter_.emplace(c.folder + "/adapter");
    lora::Origin origin{c.name + ": ", Exit::input};
    origin.head = made_.info.head;
    origin.tied_head = made_.info.tied_head;
    origin.embedding = made_.info.embedding.substr(0, made_.info.embedding.rfind('.'));
    attached_ = lora::attach(*made_.model, adapter_->config(), how.dtype, origin);
  } else {
    lora::train_all(*made_.model);
  }
  if (made_.info.stacks_experts) weights_.name_as(made_.info.stored);
  std::vector<Batch> all;
  for (const auto& samples : c.batches) all.insert(all.end(), samples.begin(), samples.end());
  PlanRequest request;
  request.dtype = how.dtype;
  request.recompute = how.recompute;
  request.train = {shape_of(GoldenCase::join(all))};
  if (how.generation) request.generation = {*how.generation};
  if (how.dropping) {
    made_.model->drop_tokens({1}, how.dropping->encoder, 2);
    request.train.push_back(shape_of(how.dropping->of(GoldenCase::join(all))));
  }
  const Plan plan = plan_run(*made_.model, request);
  saved_.emplace(ops_->allocate(plan.saved), plan.saved);
  scratch_.emplace(ops_->allocate(plan.scratch), plan.scratch);
  context_.emplace(Ctx{*ops_, *saved_, *scratch_, {how.dtype, {}, true}});
  made_.model->add_units(store_);
  made_.model->set_recompute(how.recompute);
  store_.reserve();
  const lora::Starts starts(attached_, {}, {});
  store_.load([&](const Parameter& p, Tensor y, std::int64_t first) {
    if (adapter_ && adapter_->has(p))
      adapter_->read(p, y, first);
    else if (p.name.starts_with(lora::kPeftPrefix))  // not in any file
      starts.read({weights_, weights_, nullptr, nullptr, how.dtype}, p, y, first);
    else
      weights_.read(p.stored_name(), y, first);
  });
}

// An adapter's file names a bias by its name inside PEFT's layer.
std::string GoldenRun::golden_name(const Parameter& p) const {
  if (!case_.lora() || p.name.starts_with("base_model.")) return p.name;
  const std::string module = p.name.substr(0, p.name.rfind('.'));
  const bool adapted =
      std::find(attached_.linears.begin(), attached_.linears.end(), module) != attached_.linears.end();
  return "base_model.model." + module + (adapted ? ".base_layer" : "") + p.name.substr(module.size());
}

double GoldenRun::accumulate(const std::vector<Batch>& micro_batches) {
  std::size_t targets = 0;
  for (const Batch& b : micro_batches) targets += b.targets.size();
  const Buffer memory = ops_->allocate(8);
  const Tensor loss(memory.get(), DType::f64, {1});
  double sum = 0;
  ops_->upload(loss, &sum);
  store_.begin_step();
  for (const Batch& b : micro_batches) {
    store_.begin_micro_step(&b == &micro_batches.back());
    const float scale = static_cast<float>(loss_scale_) / static_cast<float>(targets);
    made_.model->forward_backward(*context_, store_, b, CrossEntropy{loss, scale});
  }
  ops_->download(&sum, loss);
  return sum / static_cast<double>(targets);
}

GoldenRun::Pass GoldenRun::pass(const std::vector<Batch>& micro_batches) {
  Pass p{.loss = accumulate(micro_batches), .gradients = {}};
  store_.stepping().each_slice([&](const Slice& s) {
    Values& all = p.gradients[golden_name(*s.parameter)] = download(*ops_, s.grad);
    for (double& d : all) d /= loss_scale_;
  });
  return p;
}

Values GoldenRun::logits(const Batch& batch) {
  Batch b = batch;
  b.target_rows.clear();
  for (std::int32_t row = 0; row < b.tokens(); ++row) b.target_rows.push_back(row);
  b.targets.assign(b.target_rows.size(), 0);
  constexpr std::int64_t kRoom = 8 << 20;  // enough for any case
  Arena saved(ops_->allocate(kRoom), kRoom), scratch(ops_->allocate(kRoom), kRoom);
  Ctx c{*ops_, saved, scratch, {context_->dtype, {}, false}};
  const std::int64_t V = made_.model->vocab_size();
  const Buffer memory = ops_->allocate(b.tokens() * V * size_of(c.dtype));
  const Tensor y(memory.get(), c.dtype, {b.tokens(), V});
  made_.model->logits(c, store_, b, y);
  return download(*ops_, y);
}

GoldenRun::Curve GoldenRun::train() {
  Curve out;
  const auto optimizer = make_optimizer(case_.training);
  for (std::int64_t step = 0; step < case_.steps; ++step) {
    const auto& samples = case_.batches[static_cast<std::size_t>(step) % case_.batches.size()];
    out.losses.push_back(accumulate({GoldenCase::join(samples)}));
    out.grad_norms.push_back(store_.grad_norm() / loss_scale_);
    const double clip = clip_coefficient(out.grad_norms.back(), case_.training.max_grad_norm);
    take_step(*ops_, store_, *optimizer, {case_.training.learning_rate, clip / loss_scale_, step + 1});
  }
  return out;
}

Values GoldenRun::cached_logits(const std::vector<Batch>& samples, std::int32_t first) {
  context_->train = false;
  Scope memory(*saved_);
  CachedDecoding& decoding = *made_.model->decoding();
  const KvCache cache = decoding.make_kv_cache(*saved_, generation_->cache, context_->dtype);
  const std::int64_t V = made_.model->vocab_size();
  const Tensor logits = saved_->take({generation_->cache.slots, V}, context_->dtype);
  std::vector<Values> of(samples.size());
  Sources sources;
  for (std::size_t i = 0; i < samples.size() && !samples[i].source_ids.empty(); ++i) {
    const std::vector<std::int32_t>& ids = samples[i].source_ids;
    sources.ids.insert(sources.ids.end(), ids.begin(), ids.end());
    sources.starts.push_back(static_cast<std::int32_t>(sources.ids.size()));
    sources.places.push_back(static_cast<std::int32_t>(i));
  }
  if (!sources.places.empty()) made_.model->encoder()->encode(*context_, store_, cache, sources);
  for (std::int32_t from = 0, to = first;; from = to++) {
    Continuation next;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::vector<std::int32_t>& ids = samples[i].input_ids;
      if (static_cast<std::size_t>(to) > ids.size()) continue;
      next.input_ids.insert(next.input_ids.end(), ids.begin() + from, ids.begin() + to);
      next.starts.push_back(static_cast<std::int32_t>(next.rows()));
      next.slots.push_back(static_cast<std::int32_t>(i));
      next.past.push_back(from);
      next.acts_from.push_back(static_cast<std::int32_t>(last_place(ids, made_.model->invocation())));
      if (!sources.places.empty()) {
        next.sources.push_back(static_cast<std::int32_t>(i));
        next.source_lengths.push_back(static_cast<std::int32_t>(samples[i].source_ids.size()));
      }
      who.push_back(i);
    }
    if (who.empty()) break;
    const Tensor rows = logits.slice(0, next.sequences());
    decoding.extend(*context_, store_, cache, next, rows);
    const Values all = download(*ops_, rows);
    for (std::size_t n = 0; n < who.size(); ++n) {
      const auto at = all.begin() + static_cast<std::ptrdiff_t>(n) * V;
      of[who[n]].insert(of[who[n]].end(), at, at + V);
    }
  }
  Values joined;
  for (const Values& v : of) joined.insert(joined.end(), v.begin(), v.end());
  return joined;
}

std::vector<std::vector<std::int32_t>> GoldenRun::generate(std::span<const Prompt> prompts,
                                                           const TokenChooser& chooser) {
  Generator generator(*context_, store_, *made_.model, *generation_, chooser);
  std::vector<std::vector<std::int32_t>> out(prompts.size());
  generator.run(prompts, [&](std::size_t i, std::int32_t token) { return out[i].push_back(token), true; });
  return out;
}

GoldenRun::Conversation GoldenRun::converse(const std::vector<std::vector<std::int32_t>>& turns,
                                            std::int64_t length, bool keep_cache) {
  Generator generator(*context_, store_, *made_.model, *generation_, {{}, {}});
  if (keep_cache) generator.keep_cache();
  Conversation c;
  Prompt said{.max_new_tokens = length};
  for (const std::vector<std::int32_t>& turn : turns) {
    said.ids.insert(said.ids.end(), turn.begin(), turn.end());
    std::vector<std::int32_t> answer;
    generator.run({&said, 1}, [&](std::size_t, std::int32_t token) { return answer.push_back(token), true; });
    said.ids.insert(said.ids.end(), answer.begin(), answer.end());
    c.answers.push_back(answer);
  }
  c.computed = generator.tokens_computed();
  return c;
}

}  // namespace ft::test
