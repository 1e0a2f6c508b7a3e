// Wraps any Ops and takes notes of every call: the computation's name, the module or parameter it belongs to
// (`enter`), when it ran and how long, its floating point operations and the bytes it has to move. Times are
// the device's own, by marks in its queue: nothing waits, so calls follow each other as without notes, and
// gaps between them are the device's idle time. They are read when somebody waits for the device anyway. On
// NullOps the notes are a plan's FLOPs; on a real device they are a profile (`trace.json`, for Perfetto or
// chrome://tracing). It can also look at every result and remember the first call that made a NaN or an Inf.
// FLOPs and bytes are those of roles.h.
#pragma once
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/ops.h"
#include "engine/ops/trace_call.h"

namespace ft {

// The sum over all calls of one computation.
struct TraceTotal {
  std::string op;
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

// The first result that was not finite.
struct NotFinite {
  std::string op, where, role;  // "rms_norm", "model.layers.3.input_layernorm", "y"
};

struct TraceWhat {
  bool calls = false;   // keep every call for the timeline; otherwise only the totals
  bool finite = false;  // look for NaN and Inf in every result (slow)
};

class TraceOps final : public OpsOf<TraceOps> {
 public:
  explicit TraceOps(Ops& inner, TraceWhat what = {});
  ~TraceOps() override;

  std::vector<TraceTotal> totals();  // the most time first
  double flops() const;              // of all calls
  double seconds();                  // in all calls
  double gaps();                     // seconds between calls, as far as nobody waited there
  const std::vector<TraceCall>& calls();
  const std::optional<NotFinite>& not_finite() const { return not_finite_; }
  void clear();                     // forgets all notes
  void stop();                      // only passes calls on from now on
  void start() { noting_ = true; }  // as in the beginning
  // From now on notes what forward passes keep in this arena, which must outlive the notes.
  void watch(const Arena& kept) { arena_ = &kept; }
  // Bytes by label, of forward passes that were not given back in them.
  const std::map<std::string, std::int64_t, std::less<>>& kept() const { return kept_; }

  void write_table(std::ostream& out);  // totals as text, for people
  // Calls as Chrome's trace event format; `beside` them those of another thread, which communicates.
  void write_timeline(std::ostream& out, std::span<const TraceCall> beside = {});

  Device device() const override { return inner_.device(); }
  Buffer allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
  void copy(Tensor y, Tensor x) override;
  void upload(Tensor y, const void* host) override;
  void download(void* host, Tensor x) override;
  void synchronize() override;
  std::unique_ptr<Stamps> stamps(std::int64_t most) override { return inner_.stamps(most); }
  std::int64_t workspace() const override { return inner_.workspace(); }
  std::int64_t driver_memory() const override { return inner_.driver_memory(); }
  std::int64_t free_memory() const override { return inner_.free_memory(); }
  double peak_flops(DType dtype) override { return inner_.peak_flops(dtype); }
  void enter(std::string_view where) override;
  std::string_view where() const override { return where_; }
  Phases& phases() override { return inner_.phases(); }

 private:
  friend OpsOf<TraceOps>;
  // A call whose times are not known yet: it has this part of the time between two marks.
  struct Pending {
    std::size_t begin, end;  // marks
    double from, to;         // of 0 to 1
    TraceCall call;
  };
  template <class Op>
  void compute(const Op& op);
  // Makes the call and notes it. `bytes`: read and written by an ideal implementation. Whether it was noted.
  template <class Call>
  bool note(const char* op, double flops, double bytes, Call call);
  // A call of several modules is noted as one of each, with its share of the time.
  void share_out(const op::Products&);
  void settle();  // waits for the marks, if nobody did, and finishes the pending notes
  void note_kept();
  void look(const char* op, const char* role, const Tensor& result);

  Ops& inner_;
  TraceWhat what_;
  bool noting_ = true;
  std::string_view where_;
  std::map<std::string_view, TraceTotal> totals_;
  const Arena* arena_ = nullptr;
  std::int64_t mark_ = 0;  // of the arena, when it was last looked at
  std::map<std::string, std::int64_t, std::less<>> kept_;
  std::unique_ptr<Stamps> stamps_;
  std::vector<Pending> pending_;
  double gaps_ = 0;
  std::vector<TraceCall> calls_;
  std::optional<NotFinite> not_finite_;
  std::vector<std::byte> host_;  // what `look` downloads into
};

}  // namespace ft
