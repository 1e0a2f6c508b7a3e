// Norms, rotary positions, rows by index and the loss of the CUDA backend against the CPU's.
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

TEST(CudaLayers, RmsNorm) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.vector(t.rows, DType::f32);
    t.matrix(2);
    t.vector(t.cols, t.type).randomize(3);
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::RmsNorm{.y = x[0], .rstd = x[1], .x = x[2], .w = x[3], .eps = 1e-5f});
    });
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::RmsNorm{.y = x[0], .rstd = x[1], .x = x[2], .w = x[3], .eps = 1e-5f, .offset = 1});
    });
  });
}

TEST(CudaLayers, RmsNormGradientsAddUp) {
  for (const bool both : {true, false})
    each_trial([both](Trial& t) {
      t.matrix(1);
      t.vector(t.cols, DType::f32).randomize(2);
      t.matrix(3);
      t.matrix(4);
      t.vector(t.cols, t.type).randomize(5);
      t.vector(t.rows, DType::f32).randomize(6);
      t.expect_same([both](Ops& ops, const Tensors& x) {
        ops.run(op::RmsNormGrad{
            .dx = x[0], .dw = both ? x[1] : Tensor{}, .dy = x[2], .x = x[3], .w = x[4], .rstd = x[5]});
        if (!both) ops.run(op::RmsNormGrad{.dw = x[1], .dy = x[2], .x = x[3], .w = x[4], .rstd = x[5]});
        ops.run(op::RmsNormGrad{.dx = x[0], .dy = x[2], .x = x[3], .w = x[4], .rstd = x[5], .offset = 1});
      });
    });
}

TEST(CudaLayers, LayerNorm) {
  each_trial([](Trial& t) {
    t.matrix(1);
    for (int statistics = 0; statistics < 2; ++statistics) t.vector(t.rows, DType::f32);
    t.matrix(2);
    for (const std::uint64_t seed : {3, 4}) t.vector(t.cols, t.type).randomize(seed);
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::LayerNorm{
          .y = x[0], .mean = x[1], .rstd = x[2], .x = x[3], .w = x[4], .b = x[5], .eps = 1e-5f});
    });
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::LayerNorm{.y = x[0], .mean = x[1], .rstd = x[2], .x = x[3], .eps = 1e-5f});
    });
  });
}

TEST(CudaLayers, LayerNormGradientsAddUp) {
  for (const bool all : {true, false})
    each_trial([all](Trial& t) {
      t.matrix(1);
      for (const std::uint64_t seed : {2, 3}) t.vector(t.cols, DType::f32).randomize(seed);
      t.matrix(4);
      t.matrix(5);
      t.vector(t.cols, t.type).randomize(6);
      for (const std::uint64_t seed : {7, 8}) t.vector(t.rows, DType::f32).randomize(seed);
      t.expect_same([all](Ops& ops, const Tensors& x) {
        op::LayerNormGrad grad{.dy = x[3], .x = x[4], .w = x[5], .mean = x[6], .rstd = x[7]};
        grad.dx = x[0];
        if (all) grad.dw = x[1], grad.db = x[2];
        ops.run(grad);
        if (!all) ops.run(op::LayerNormGrad{.dx = x[0], .dy = x[3], .x = x[4], .mean = x[6], .rstd = x[7]});
        if (all) return;
        ops.run(op::LayerNormGrad{.db = x[2], .dy = x[3], .x = x[4], .w = x[5], .mean = x[6], .rstd = x[7]});
        ops.run(op::LayerNormGrad{.dw = x[1], .dy = x[3], .x = x[4], .w = x[5], .mean = x[6], .rstd = x[7]});
      });
    });
}

// Rows that a block cannot keep completely, and rows whose end is within a pack of a thread.
TEST(CudaLayers, NormsOfLongRows) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const auto& [cols, offset] :
         {std::pair<std::int64_t, std::int64_t>{16448, 0}, {1030, 0}, {1032, 1}}) {
      SCOPED_TRACE(str(name_of(type), " ", cols, " columns, offset ", offset));
      Trial t{type, 2, cols, 0, offset};
      for (const std::uint64_t seed : {1, 2, 3, 4}) t.matrix(seed);
      for (const std::uint64_t seed : {5, 6}) t.vector(cols, type).randomize(seed);
      for (int statistics = 0; statistics < 2; ++statistics) t.vector(2, DType::f32);
      t.expect_same([](Ops& ops, const Tensors& x) {
        const Tensor &y = x[0], &dx = x[1], &dy = x[2], &in = x[3], &w = x[4], &b = x[5];
        ops.run(op::RmsNorm{.y = y, .rstd = x[7], .x = in, .w = w, .eps = 1e-5f});
        ops.run(op::RmsNormGrad{.dx = dx, .dy = dy, .x = in, .w = w, .rstd = x[7]});
        ops.run(op::LayerNorm{.y = y, .mean = x[6], .rstd = x[7], .x = in, .w = w, .b = b, .eps = 1e-5f});
        ops.run(op::LayerNormGrad{.dx = dx, .dy = dy, .x = in, .w = w, .mean = x[6], .rstd = x[7]});
      });
    }
}

// A row alone gives the same bits as among others.
TEST(CudaLayers, ANormOfARowDoesNotDependOnTheOthers) {
  for (const std::int64_t cols : {1024, 4096, 1030}) {
    auto ops = make_cuda_ops(0, kSmall);
    Matrix x(5, cols, DType::bf16), w(1, cols, DType::bf16);
    x.randomize(1);
    w.randomize(2);
    const auto norm = [&](std::int64_t first, std::int64_t rows) {
      Matrix y(rows, cols, DType::bf16), rstd(1, rows, DType::f32), some(rows, cols, DType::bf16);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j) some.set(i, j, x.get(first + i, j));
      OnGpu to(*ops, y, 0), root(*ops, rstd, 0), from(*ops, some, 0), weight(*ops, w, 0);
      ops->run(op::RmsNorm{
          .y = to.tensor, .rstd = root.tensor, .x = from.tensor, .w = weight.tensor, .eps = 1e-5f});
      to.download(y);
      return y.values();
    };
    const std::vector<double> all = norm(0, 5), one = norm(3, 1);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + 3 * cols));
  }
}

TEST(CudaLayers, ColumnSums) {
  each_trial([](Trial& t) {
    t.vector(t.cols, DType::f32).randomize(1);
    t.matrix(2);
    t.expect_same([](Ops& ops, const Tensors& x) { ops.run(op::ColumnSums{x[0], x[1]}); });
  });
}

TEST(CudaLayers, RopeAndItsTranspose) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t width : {2, 6, 16, 64, 128})
      for (const std::int64_t heads : {1, 3, 20})
        for (const std::int64_t pad : {0, 3}) {
          SCOPED_TRACE(str(name_of(type), " ", heads, " heads of ", width, " pad ", pad));
          Trial t{type, 9, heads * width, pad};
          t.matrix(1);
          t.vector(30 * width / 2, DType::f32).randomize(2);
          t.vector(30 * width / 2, DType::f32).randomize(3);
          t.indices(9, 30);
          for (const std::int64_t of_keys : {1, 5}) t.matrix(9, of_keys * width, type).randomize(4);
          t.expect_same([width](Ops& ops, const Tensors& x) {
            const Tensor cos = x[1].view({30, width / 2}), sin = x[2].view({30, width / 2});
            for (const std::size_t keys : {4, 5})
              for (const bool neighbours : {false, true})
                ops.run(op::Rope{.x = x[0],
                                 .more = x[keys],
                                 .cos = cos,
                                 .sin = sin,
                                 .positions = x[3],
                                 .head_width = width,
                                 .neighbours = neighbours});
            ops.run(op::Rope{.x = x[0], .cos = cos, .sin = sin, .positions = x[3], .head_width = width});
            ops.run(op::Rope{.x = x[0].slice(0, 4),
                             .cos = cos,
                             .sin = sin,
                             .positions = Tensor(x[3].data, DType::i32, {4}),
                             .head_width = width,
                             .sign = -1});
            ops.run(op::Rope{.x = x[0],
                             .cos = cos,
                             .sin = sin,
                             .positions = x[3],
                             .head_width = width,
                             .neighbours = true});
            if (width < 16) return;  // rotates a quarter of each head, at its beginning or further on
            for (const bool neighbours : {false, true})
              ops.run(op::Rope{.x = x[0],
                               .cos = Tensor(x[1].data, DType::f32, {30, width / 8}),
                               .sin = Tensor(x[2].data, DType::f32, {30, width / 8}),
                               .positions = x[3],
                               .head_width = width,
                               .first = width / 2 + 1,
                               .neighbours = neighbours});
            ops.run(op::Rope{.x = x[0],
                             .cos = Tensor(x[1].data, DType::f32, {30, width / 8}),
                             .sin = Tensor(x[2].data, DType::f32, {30, width / 8}),
                             .positions = x[3],
                             .head_width = width});
          });
        }
}

TEST(CudaLayers, RowsByNumber) {
  each_trial([](Trial& t) {
    t.matrix(7, t.cols, t.type).randomize(1);
    t.matrix(2);
    t.indices(7, t.rows);
    t.matrix(t.rows + 40, t.cols, t.type).randomize(3);
    Matrix& apart = t.vector(7, DType::i32);
    for (std::int64_t i = 0; i < 7; ++i) apart.set(0, i, double(i * 3 + 1));
    t.expect_same(
        [](Ops& ops, const Tensors& x) {
          ops.run(op::GatherRows{.y = x[0], .x = x[1], .rows = x[2]});
          ops.run(op::Embedding{.y = x[0], .ids = x[2], .table = x[1]});
          ops.run(op::ScatterRows{.y = x[3], .x = x[0], .rows = x[4]});
        },
        0);
  });
}

TEST(CudaLayers, ANegativeIdHasARowOfZeros) {
  Trial some{DType::bf16, 4, 20};
  some.matrix(1);
  some.matrix(11, 20, DType::bf16).randomize(2);
  some.vector(4, DType::i32).assign({3, -1, 10, -5});
  some.expect_same(
      [](Ops& ops, const Tensors& x) { ops.run(op::Embedding{.y = x[0], .ids = x[2], .table = x[1]}); }, 0);
}

TEST(CudaLayers, ColumnsByNumber) {
  each_trial([](Trial& t) {
    t.matrix(t.rows, 5, t.type).randomize(1);
    t.matrix(2);
    t.indices(5, t.cols);
    t.expect_same(
        [](Ops& ops, const Tensors& x) { ops.run(op::GatherColumns{.y = x[0], .x = x[1], .columns = x[2]}); },
        0);
  });
}

TEST(CudaLayers, EmbeddingGradientHasTheCpusBits) {
  for (const std::int64_t vocabulary : {1, 40})
    each_trial([vocabulary](Trial& t) {
      t.matrix(vocabulary, t.cols, DType::f32).randomize(1);
      t.indices(t.rows, vocabulary);
      t.matrix(2);
      t.expect_same(
          [](Ops& ops, const Tensors& x) {
            ops.run(op::EmbeddingGrad{.dtable = x[0], .ids = x[1], .dy = x[2]});
          },
          0);
    });
  Trial some{DType::f32, 4, 20};  // a negative id has no row
  some.matrix(11, 20, DType::f32).randomize(1);
  some.vector(4, DType::i32).assign({3, -1, 3, -5});
  some.matrix(2);
  some.expect_same(
      [](Ops& ops, const Tensors& x) { ops.run(op::EmbeddingGrad{.dtable = x[0], .ids = x[1], .dy = x[2]}); },
      0);
  Trial padded{DType::f32, 6, 20};  // padding has no gradient
  padded.matrix(11, 20, DType::f32).randomize(1);
  padded.vector(6, DType::i32).assign({3, 7, 3, 0, 7, 0});
  padded.matrix(2);
  padded.expect_same(
      [](Ops& ops, const Tensors& x) {
        ops.run(op::EmbeddingGrad{.dtable = x[0], .ids = x[1], .dy = x[2], .padding = 7});
      },
      0);
  Trial longer{DType::bf16, 700, 20};  // more rows than a block has threads
  longer.matrix(11, 20, DType::f32).randomize(1);
  longer.indices(700, 11);
  longer.matrix(2);
  longer.expect_same(
      [](Ops& ops, const Tensors& x) { ops.run(op::EmbeddingGrad{.dtable = x[0], .ids = x[1], .dy = x[2]}); },
      0);
}

TEST(CudaLayers, CrossEntropyAndItsGradientInPlace) {
  for (const auto& [smoothing, cap] : {std::pair{0.0f, 0.0f}, {0.1f, 0.0f}, {0.1f, 12.0f}})
    each_trial([smoothing = smoothing, cap = cap](Trial& t) {
      t.vector(t.rows, DType::f32);
      t.vector(t.rows, DType::f32);
      t.matrix(t.rows, t.cols, t.type).randomize(1, 9);
      t.indices(t.rows, t.cols);
      t.expect_same([smoothing, cap](Ops& ops, const Tensors& x) {
        if (cap > 0) ops.run(op::SoftCap{.y = x[2], .x = x[2], .cap = cap});
        ops.run(op::CrossEntropy{.loss = x[0], .logits = x[2], .targets = x[3], .smoothing = smoothing});
        ops.run(op::CrossEntropy{.loss = x[1],
                                 .logits = x[2],
                                 .targets = x[3],
                                 .scale = 0.3f,
                                 .smoothing = smoothing,
                                 .gradient = true,
                                 .cap = cap});
      });
    });
}

// Rows that a block keeps completely or partly, with targets in the kept part and in the part that it reads
// again.
TEST(CudaLayers, CrossEntropyOfManyClasses) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const std::int64_t cols : {8208, 33000}) {
      SCOPED_TRACE(str(name_of(type), " ", cols, " classes"));
      Trial t{type, 3, cols};
      t.vector(3, DType::f32);
      t.matrix(3, cols, type).randomize(1, 9);
      Matrix& targets = t.vector(3, DType::i32);
      targets.set(0, 0, 5), targets.set(0, 1, double(16390 % cols)), targets.set(0, 2, double(cols - 1));
      t.expect_same([](Ops& ops, const Tensors& x) {
        ops.run(op::CrossEntropy{.loss = x[0],
                                 .logits = x[1],
                                 .targets = x[2],
                                 .scale = 0.3f,
                                 .smoothing = 0.1f,
                                 .gradient = true});
      });
    }
}

TEST(CudaLayers, DynamicCrossEntropy) {
  for (const float cap : {0.0f, 12.0f})
    each_trial([cap](Trial& t) {
      t.vector(t.rows, DType::f32);
      t.matrix(t.rows, t.cols, t.type).randomize(1, 9);
      t.indices(t.rows, t.cols);
      t.expect_same([cap](Ops& ops, const Tensors& x) {
        if (cap > 0) ops.run(op::SoftCap{.y = x[1], .x = x[1], .cap = cap});
        ops.run(op::CrossEntropy{.loss = x[0],
                                 .logits = x[1],
                                 .targets = x[2],
                                 .scale = 0.3f,
                                 .dynamic = true,
                                 .gradient = true,
                                 .cap = cap});
      });
    });
}

TEST(CudaLayers, WeightedRowsAndLogitStatistics) {
  each_trial([](Trial& t) {
    t.vector(t.rows, DType::f32);
    t.matrix(t.rows, op::LogitStatistics::kCount, DType::f32);
    t.matrix(t.rows, t.cols, t.type).randomize(1, 9);
    t.indices(t.rows, t.cols);
    t.vector(t.rows, DType::f32).randomize(5);
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::LogitStatistics{.y = x[1], .logits = x[2], .targets = x[3]});
      ops.run(op::CrossEntropy{
          .loss = x[0], .logits = x[2], .targets = x[3], .scale = 0.3f, .gradient = true, .weights = x[4]});
    });
  });
}

TEST(CudaLayers, CrossEntropyOfColumns) {
  each_trial([](Trial& t) {
    if (t.cols < 2) return;
    t.vector(t.rows, DType::f32);
    t.vector(2 * t.rows * op::LogitSums::kCount, DType::f32);
    t.matrix(t.rows, t.cols, t.type).randomize(1, 9);
    t.indices(t.rows, t.cols);
    t.expect_same([](Ops& ops, const Tensors& x) {
      const std::int64_t rows = x[2].rows(), ends[] = {0, x[2].cols() / 2, x[2].cols()};
      const Tensor sums(x[1].data, DType::f32, {2 * rows, op::LogitSums::kCount});
      for (int i = 0; i < 2; ++i)
        ops.run(op::LogitSums{.y = sums.slice(i * rows, (i + 1) * rows),
                              .logits = x[2].columns(ends[i], ends[i + 1]),
                              .targets = x[3],
                              .first = ends[i]});
      for (int i = 0; i < 2; ++i)
        ops.run(op::CrossEntropy{.loss = x[0],
                                 .logits = x[2].columns(ends[i], ends[i + 1]),
                                 .targets = x[3],
                                 .scale = 0.3f,
                                 .smoothing = 0.1f,
                                 .dynamic = true,
                                 .gradient = true,
                                 .cap = 12,
                                 .sums = sums,
                                 .first = ends[i],
                                 .classes = ends[2]});
    });
  });
}

TEST(CudaLayers, DivergenceAndItsGradientInPlace) {
  for (const float beta : {0.0f, 0.3f, 1.0f})
    each_trial([beta](Trial& t) {
      t.vector(t.rows, DType::f32);
      t.matrix(t.rows, t.cols, t.type).randomize(1, 4);
      t.matrix(t.rows, t.cols, t.type).randomize(2, 4);
      t.indices(t.rows, t.cols);
      t.expect_same([beta](Ops& ops, const Tensors& x) {
        op::Divergence d{.loss = x[0], .logits = x[1], .teacher = x[2], .targets = x[3]};
        d.beta = beta;
        d.temperature = 1.5f;
        d.cross_entropy = 0.3f;
        d.scale = 0.25f;
        d.gradient = true;
        ops.run(d);
      });
    });
}

TEST(CudaLayers, CrossEntropyOfInfiniteAndNanLogits) {
  Trial t{DType::f32, 3, 2500};
  t.vector(3, DType::f32);
  Matrix& logits = t.matrix(1);
  for (std::int64_t i = 0; i < 2400; ++i) logits.set(0, i, -HUGE_VAL);  // some threads see only -inf
  logits.set(1, 7, 1e30);
  t.vector(3, DType::i32).assign({2450, 7, 0});
  t.expect_same([](Ops& ops, const Tensors& x) {
    ops.run(op::CrossEntropy{
        .loss = x[0], .logits = x[1], .targets = x[2], .scale = 1, .smoothing = 0, .gradient = true});
  });

  auto ops = make_cuda_ops(0, kSmall);
  Matrix bad(1, 100, DType::f32), loss(1, 1, DType::f32), target(1, 1, DType::i32);
  bad.randomize(1).set(0, 50, NAN);
  target.set(0, 0, 3);
  const OnGpu x(*ops, bad, 0), y(*ops, loss, 0), k(*ops, target, 0);
  ops->run(op::CrossEntropy{.loss = y.tensor, .logits = x.tensor, .targets = k.tensor});
  y.download(loss);
  EXPECT_TRUE(std::isnan(loss.get(0, 0)));
}

// An out-of-range access is skipped, and reported when the host waits for the GPU.
TEST(CudaLayers, AWrongIndexIsAnInternalError) {
  struct WrongCall {
    const char* words;
    std::function<void(Ops&, const Tensors&)> call;
    bool leaves_out_negatives = false;
  };
  const std::vector<WrongCall> cases{
      {"rope: a position beyond the table",
       [](Ops& o, const Tensors& t) {
         o.run(op::Rope{.x = t[0], .cos = t[2], .sin = t[2], .positions = t[1], .head_width = 4});
       }},
      {"embedding: an id beyond the table",
       [](Ops& o, const Tensors& t) { o.run(op::Embedding{.y = t[0], .ids = t[1], .table = t[0]}); }, true},
      {"embedding: an id beyond the table",
       [](Ops& o, const Tensors& t) { o.run(op::EmbeddingGrad{.dtable = t[0], .ids = t[1], .dy = t[3]}); },
       true},
      {"gather_rows: a row beyond x",
       [](Ops& o, const Tensors& t) { o.run(op::GatherRows{.y = t[0], .x = t[3], .rows = t[1]}); }},
      {"gather_columns: a column beyond x",
       [](Ops& o, const Tensors& t) {
         o.run(op::GatherColumns{.y = t[0].columns(0, 2), .x = t[0], .columns = t[1]});
       }},
      {"scatter_rows: a row beyond y",
       [](Ops& o, const Tensors& t) { o.run(op::ScatterRows{.y = t[0], .x = t[3], .rows = t[1]}); }},
      {"cross_entropy: a target beyond the classes",
       [](Ops& o, const Tensors& t) {
         o.run(op::CrossEntropy{.loss = Tensor(t[2].data, DType::f32, {2}), .logits = t[0], .targets = t[1]});
       }},
      {"attention_ranges: keys that are not there",
       [](Ops& o, const Tensors& t) {
         o.run(op::AttentionRanges{
             .y = t[0], .q = t[0], .k = t[3], .v = t[3], .heads = {1, 1, 4}, .ranges = {t[1], t[1]}});
       }},
  };
  for (const std::int32_t wrong : {-1, 1000000})
    for (const WrongCall& c : cases) {
      if (wrong < 0 && c.leaves_out_negatives) continue;
      auto ops = make_cuda_ops(0, kSmall);
      Matrix x(2, 4, DType::f32), index(1, 2, DType::i32), table(2, 2, DType::f32), y(2, 4, DType::f32);
      x.randomize(1);
      index.assign({0, double(wrong)});
      table.randomize(2);
      y.randomize(3);
      const OnGpu a(*ops, x, 0), b(*ops, index, 0), t(*ops, table, 0), d(*ops, y, 0);
      const Tensor rows(b.tensor.data, DType::i32, {2});
      c.call(*ops, {a.tensor, rows, t.tensor, d.tensor});
      try {
        ops->synchronize();
        ADD_FAILURE() << c.words;
      } catch (const InternalError& e) {
        EXPECT_NE(std::string(e.what()).find(c.words), std::string::npos) << e.what();
      }
    }
}

// The error is reported once, and names the module in which it occurred.
TEST(CudaLayers, AWrongIndexIsNamedAndForgotten) {
  auto ops = make_cuda_ops(0, kSmall);
  Matrix table(4, 8, DType::f32), ids(1, 2, DType::i32), y(2, 8, DType::f32);
  table.randomize(1), ids.assign({1, 4});
  const OnGpu t(*ops, table, 0), i(*ops, ids, 0), to(*ops, y, 0);
  const auto embed = [&](const char* where, std::int32_t last) {
    ops->enter(where);
    const std::int32_t now[] = {1, last};
    ops->upload(i.tensor, now);
    ops->run(op::Embedding{.y = to.tensor, .ids = i.tensor.view({2}), .table = t.tensor});
  };
  const auto said = [&] {
    try {
      ops->synchronize();
    } catch (const InternalError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& all, const std::string& with) { return all.find(with) != all.npos; };
  embed("encoder.embed_tokens", 3);
  EXPECT_EQ(said(), "");
  embed("encoder.embed_tokens", 4);
  std::string what = said();
  EXPECT_TRUE(has(what, "embedding: an id beyond the table, in encoder.embed_tokens")) << what;
  EXPECT_FALSE(has(what, "later module")) << what;
  EXPECT_EQ(said(), "");
  embed("encoder.embed_tokens", 3);
  embed("decoder.embed_tokens", 5);
  what = said();
  EXPECT_TRUE(has(what, "an id beyond the table, in encoder.embed_tokens or a later module")) << what;
  embed("decoder.embed_tokens", 3);
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace ft::cuda
