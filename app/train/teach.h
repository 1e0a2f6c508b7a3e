// ft teach: writes a teacher's predictions for a run's data into the file that the run learns from.
#pragma once
#include <cstdint>
#include <string>

#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct TeachArgs : ConfigArgs {
  std::string model;        // the teacher's folder or hub id
  std::int64_t top_k = 64;  // number of likeliest tokens to keep at each target
  bool load_in_4bit = false;
  bool overwrite = false;  // replace objective.teacher_file
};
Exit teach(const TeachArgs&);

}  // namespace ft
