// Writes an offline run of Weights & Biases: wandb/offline-run-DATE-ID/run-ID.wandb, which `wandb sync`
// sends. The file is a chain of protocol buffers (wandb_internal.proto, type Record) in the framing of
// LevelDB's log.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/train/reports/config.h"
#include "engine/train/reports/report.h"
#include "engine/train/reports/run_file.h"

namespace ft {

namespace wandb {

// Frames the records of one file in blocks of 32 KiB. Each piece of a record has its CRC-32 (of type and
// bytes, zlib's), u16 length and u8 type (1 whole, 2 first, 3 middle, 4 last) before it. No piece crosses a
// block.
class Framing {
 public:
  std::string begin();  // the file's first seven bytes
  std::string frame(std::string_view record);

 private:
  std::size_t at_ = 0;  // bytes of the file so far
};

}  // namespace wandb

class Wandb final : public Report {
 public:
  // The run is in `folder`/wandb/offline-run-*, where wandb may not be a symbolic link.
  Wandb(std::string folder, WandbConfig config) : folder_(std::move(folder)), config_(std::move(config)) {}

  // A resumed run keeps its id; the file begins again with the earlier rows.
  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;
  void end(const Summary& summary) override;

 private:
  void open(bool resumed);
  void put(int kind, std::string_view message);  // a field of Record
  void history(std::int64_t step, const Measures& numbers);
  void system();
  double runtime() const;

  std::string folder_;
  WandbConfig config_;
  std::string id_;
  double started_ = 0;                   // seconds since 1970
  std::int64_t records_ = 0, rows_ = 0;  // records in the file; rows in the history
  wandb::Framing framing_;
  RunFile file_;
};

}  // namespace ft
