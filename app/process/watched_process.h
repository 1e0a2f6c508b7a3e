// A command of ft as a process: its words go to a file, the last of them to whoever watches.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/process/child.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class WatchedProcess {
 public:
  // `arguments` of ft; `log` is appended to.
  WatchedProcess(const std::vector<std::string>& arguments, const std::string& log,
                 const SignalQueue& signals);

  // Its exit code, or 128 plus the signal that ended it. Signals are passed on; `stopped` becomes true when
  // one asked for the end. `says` is called with the last complete line, a few times a second.
  int wait(bool& stopped, const std::function<void(const std::string&)>& says);
  // Asks it to end, while wait() runs.
  void end() const;
  const std::string& last_line() const { return last_line_; }

 private:
  void hear();

  const SignalQueue& signals_;
  RunFile log_;
  Child child_;
  std::string line_, last_line_;
};

}  // namespace ft
