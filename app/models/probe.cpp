#include "app/models/probe.h"

#include <algorithm>
#include <cmath>

#include "app/run/run.h"
#include "engine/files/convert.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

Batch probe_batch(std::int64_t tokens, std::int64_t vocab) {
  Batch b;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto bits = Random{0x70726f6265}.at(static_cast<std::uint64_t>(t))[0];
    b.input_ids.push_back(static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(vocab)));
    b.positions.push_back(static_cast<std::int32_t>(t));
    b.target_rows.push_back(static_cast<std::int32_t>(t));
    b.targets.push_back(0);
  }
  b.starts = {0, static_cast<std::int32_t>(tokens)};
  b.source_ids = b.input_ids;  // of an encoder-decoder
  b.source_starts = b.starts;
  return b;
}

}  // namespace

std::vector<float> probe_logits(const BuiltModel& b, std::int64_t tokens) {
  EachParameter freeze([](Parameter& p) { p.trainable = false; });
  b.model().visit(freeze);
  Run run(b);
  run.request().eval = {{.tokens = tokens,
                         .targets = tokens,
                         .sequences = 1,
                         .longest = tokens,
                         .source_tokens = tokens,
                         .longest_source = tokens}};
  run.plan("end other programs, or use a machine with more memory");
  Engine& engine = run.start();
  engine.context.train = false;
  const std::int64_t V = b.model().vocab_size();
  const Buffer memory = engine.ops->allocate(tokens * V * size_of(b.dtype));
  Tensor logits(memory.get(), b.dtype, {tokens, V});
  b.model().logits(engine.context, engine.store, probe_batch(tokens, b.made.info.vocab_size), logits);
  std::vector<std::byte> stored(static_cast<std::size_t>(logits.bytes()));
  engine.ops->download(stored.data(), logits);
  std::vector<float> out(static_cast<std::size_t>(tokens * V));
  convert(out.data(), DType::f32, stored.data(), b.dtype, tokens * V);
  return out;
}

LogitDifference compare_logits(const std::vector<float>& a, const std::vector<float>& b) {
  require(a.size() == b.size(), "logits of different shapes");
  LogitDifference d;
  for (std::size_t i = 0; i < a.size(); ++i) {
    d.largest = std::max(d.largest, std::abs(static_cast<double>(a[i]) - b[i]));
    d.magnitude = std::max(d.magnitude, std::abs(static_cast<double>(a[i])));
  }
  return d;
}

}  // namespace ft
