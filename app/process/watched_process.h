// A command of ft as a child process. Its output goes to a file; the last line also goes to the caller.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/process/child.h"
#include "engine/train/reports/run_file.h"

namespace ft {

// True for an exit code of wait() that another try need not give: killed, no room on the disk, a lost peer.
bool may_end_otherwise(int exit_code);

class WatchedProcess {
 public:
  // `arguments`: of ft. Appends the output to `log`.
  WatchedProcess(const std::vector<std::string>& arguments, const std::string& log,
                 const SignalQueue& signals);

  // Waits for the end. Returns the exit code, or 128 plus the number of the signal that ended the process.
  // Passes signals on; `stopped` becomes true if one came. Calls `says` with the last complete line, a few
  // times per second.
  int wait(bool& stopped, const std::function<void(const std::string&)>& says);
  // Asks the process to end (SIGTERM); call it while wait() runs.
  void end() const;
  const std::string& last_line() const { return last_line_; }

 private:
  void hear();
  void keep(std::string_view text);

  const SignalQueue& signals_;
  RunFile log_;
  Child child_;
  std::string line_, last_line_;
};

}  // namespace ft
