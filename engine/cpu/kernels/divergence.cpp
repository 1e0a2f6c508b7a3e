// The divergence of a student's rows of logits from a teacher's: passes over two rows that stay in the
// second-level cache. Logarithms of mixtures are computed lane by lane.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();
constexpr float kLeast = 1e-37f;  // smallest probability of a mixture, so that its logarithm stays finite

Vec present(Whole, Vec x) { return x; }
Vec present(Part part, Vec x) { return select(first_lanes(part.n), x, zero()); }
Vec or_lowest(Whole, Vec x) { return x; }
Vec or_lowest(Part part, Vec x) { return select(first_lanes(part.n), x, splat(kLowest)); }

Vec log(Vec x) {
  float lanes[kLanes];
  store(lanes, x);
  for (float& lane : lanes) lane = __builtin_logf(lane);
  return load(lanes);
}

// softmax(row / T) of a row.
template <class T>
struct Softmax {
  Softmax(const T* row, i64 n, float inverse_temperature) : p(row), inverse(inverse_temperature) {
    top = largest(reduce(
        n, splat(kLowest), [&](auto part, i64 i) { return or_lowest(part, part.load(p + i)); },
        [](Vec a, Vec b) { return max(a, b); }));
    total = sum_over_many(n, [&](auto part, i64 i) { return present(part, power(part, i)); });
    log_total = static_cast<float>(__builtin_log(double{total}));
  }
  Vec exponent(auto part, i64 i) const {
    return max((part.load(p + i) - splat(top)) * splat(inverse), splat(-1e30f));
  }
  Vec power(auto part, i64 i) const { return exp2(exponent(part, i) * splat(kLog2e)); }
  Vec log_p(auto part, i64 i) const { return exponent(part, i) - splat(log_total); }
  Vec probability(auto part, i64 i) const { return present(part, power(part, i)) * splat(1 / total); }

  const T* p;
  float inverse, top = 0, total = 0, log_total = 0;
};

template <class T>
struct Pair {
  Softmax<T> student, teacher;
  float beta;

  Vec log_mixture(auto part, i64 i) const {
    const Vec m = splat(1 - beta) * student.probability(part, i) + splat(beta) * teacher.probability(part, i);
    return log(max(m, splat(kLeast)));
  }
  // Logarithm of the distribution that p, or q, is compared with: the other one, or the mixture.
  Vec log_other(auto part, i64 i) const { return beta == 1 ? teacher.log_p(part, i) : log_mixture(part, i); }
  float from_student(i64 n) const {  // KL(p || ...)
    if (beta == 0) return 0;
    return sum_over(n, [&](auto part, i64 i) {
      return student.probability(part, i) * (student.log_p(part, i) - log_other(part, i));
    });
  }
  float from_teacher(i64 n) const {  // KL(q || ...)
    if (beta == 1) return 0;
    return sum_over(n, [&](auto part, i64 i) {
      const Vec other = beta == 0 ? student.log_p(part, i) : log_mixture(part, i);
      return teacher.probability(part, i) * (teacher.log_p(part, i) - other);
    });
  }
  // The gradient by logits / T; kl is the result of from_student.
  Vec slope(auto part, i64 i, float kl) const {
    const Vec p = student.probability(part, i);
    if (beta == 0) return p - teacher.probability(part, i);
    const float weight = beta == 1 ? 1 : 1 - beta;
    return splat(weight) * p * (student.log_p(part, i) - log_other(part, i) - splat(kl));
  }
};

template <class T>
void row_of(const op::Divergence& op, const View& logits, const View& teacher, i64 row) {
  const i64 n = logits.cols, target = data_of<const std::int32_t>(op.targets)[row];
  T* p = at<T>(logits, row);
  const float inverse = 1 / op.temperature;
  const Pair<T> pair{{p, n, inverse}, {at<const T>(teacher, row), n, inverse}, op.beta};
  const Softmax<T> plain(p, op.cross_entropy == 0 ? 0 : n, 1);
  const float from_student = pair.from_student(n), from_teacher = pair.from_teacher(n);
  const bool mixed = 0 < op.beta && op.beta < 1;
  const float both =
      mixed ? op.beta * from_teacher + (1 - op.beta) * from_student : from_teacher + from_student;
  const float ce = op.cross_entropy == 0 ? 0 : plain.log_total + plain.top - to_float(p[target]);
  data_of<float>(op.loss)[row] = op.divergence * both + op.cross_entropy * ce;
  if (!op.gradient) return;
  const float weight = op.scale * op.divergence * inverse, example = op.scale * op.cross_entropy;
  const auto gradient = [&](auto part, i64 i, float at_target) {
    Vec g = splat(weight) * pair.slope(part, i, from_student);
    if (example != 0) g = g + splat(example) * (plain.probability(part, i) - splat(at_target));
    if (op.cap == 0) return g;
    const Vec part_of_cap = part.load(p + i) * splat(1 / op.cap);
    return g * (splat(1) - part_of_cap * part_of_cap);
  };
  const float own = largest(or_lowest(Part{1}, gradient(Part{1}, target, 1)));
  each_vector(n, [&](auto part, i64 i) { part.store(p + i, gradient(part, i, 0)); });
  from_float(p[target], own);
}

}  // namespace

void compute(const op::Divergence& op, Team& team) {
  const View logits = view_of(op.logits), teacher = view_of(op.teacher);
  with_float(logits.type, [&](auto t) {
    each_row(logits.rows, logits.cols, team, [&](i64 row) { row_of<decltype(t)>(op, logits, teacher, row); });
  });
}

}  // namespace ft::cpu::FT_TARGET
