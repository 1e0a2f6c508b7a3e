#include "app/train/teach.h"

#include <algorithm>
#include <span>

#include "app/run/run.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/convert.h"
#include "engine/files/file.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

// Passes the logits of a batch to `teaching`, which keeps the likeliest tokens. Null: the passes are only
// planned.
class AskingTeacher final : public Objective, private LogitLoss {
 public:
  explicit AskingTeacher(Teaching* teaching) : teaching_(teaching) {}
  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  void forward(const Pass& p, const Batch& b, Tensor loss) override {
    Ctx c = p.context;
    c.train = false;
    const Scope scratch(c.scratch);
    if (!loss) loss = c.scratch.take({1}, DType::f64);
    if (teaching_) wanted_ = teaching_->begin(b);
    if (!teaching_ || std::ranges::count(wanted_, true) > 0)
      p.policy.model->forward(c, *p.policy.store, b, LogitLosses{loss, this});
  }
  void forward_backward(const Pass&, const Batch&, Tensor, float) override {
    throw InternalError("ft teach trains nothing");
  }

 private:
  void run(Ctx& c, const Chunk& k) override {
    c.ops.run(op::Fill{k.losses, 0});
    if (!teaching_) return;
    const auto rows = static_cast<std::size_t>(k.logits.rows()),
               columns = static_cast<std::size_t>(k.logits.cols());
    std::vector<float> logits(rows * columns);
    if (k.logits.dtype == DType::f32) {
      c.ops.download(logits.data(), k.logits);
    } else {
      std::vector<std::uint16_t> narrow(logits.size());
      c.ops.download(narrow.data(), k.logits);
      convert(logits.data(), DType::f32, narrow.data(), k.logits.dtype, std::ssize(narrow));
    }
    for (std::size_t r = 0; r < rows; ++r)
      if (wanted_[static_cast<std::size_t>(k.begin) + r])
        teaching_->add(std::span(logits).subspan(r * columns, columns));
  }

  Teaching* teaching_;
  std::vector<bool> wanted_;  // of the batch's targets
};

RunConfig config_of(const TeachArgs& args) {
  RunConfig config = load_config(args.config, args.settings());
  const auto refuse = [](const char* what) { throw UserError(Exit::config, what); };
  if (!config.objective.needs().teacher || !config.objective.teacher_file)
    refuse("objective.teacher_file: name the file to be made, with objective.type=distill");
  if (config.data.streaming) refuse("data.streaming: a teacher needs all data; set it to false");
  if (ranks_here() > 1) refuse("ft teach runs as one process; start it without ft launch");
  if (path_exists(*config.objective.teacher_file) && !args.overwrite)
    throw UserError(Exit::config, str("objective.teacher_file: ", printable(*config.objective.teacher_file),
                                      " already exists; --overwrite replaces it"));
  return config;
}

// Plans the teacher's passes over the data, and takes their memory.
void start(Run& run, const BuiltData& data) {
  AskingTeacher nobody(nullptr);
  run.request().objective = &nobody;
  for (const Batcher* part : {data.train.get(), data.eval.get()})
    if (part)
      for (const BatchShape& s : largest_shapes(*part, 1)) run.request().eval.push_back(s);
  run.plan(
      "a smaller training.per_device_train_batch_size and per_device_eval_batch_size, "
      "training.bf16=true, --load-in-4bit");
  run.start();
}

}  // namespace

Exit teach(const TeachArgs& args) {
  const RunConfig config = config_of(args);
  const std::string& file = *config.objective.teacher_file;
  Screen screen(Screen::standard_error(config.logging.progress));
  const BuiltModel policy = build_model(config, Weights::ignore);  // only its sizes are used
  const auto teacher = build_teacher(config, args.model, policy, args.load_in_4bit);
  BuiltData data = read_data(config, policy, 1, screen);
  { const AtomicFile writable(file); }  // fails now, not after the work
  Run run(*teacher, config);
  start(run, data);
  const std::int64_t vocabulary = teacher->made.info.vocab_size;
  Teaching teaching(std::min(args.top_k, vocabulary), vocabulary);
  AskingTeacher asking(&teaching);
  for (const Batcher* part : {data.train.get(), data.eval.get()}) {
    Working working(screen, "asking the teacher", "batches");
    for (std::int64_t i = 0; part && i < part->batches_per_epoch(); ++i) {
      asking.forward(run.pass(), part->batch(0, i), {});
      working(i + 1, part->batches_per_epoch());
    }
  }
  teaching.write(file);
  screen.line(str("asked of ", show::plural(teaching.targets(), "target"), " -> ", show::path(file)));
  return Exit::done;
}

}  // namespace ft
