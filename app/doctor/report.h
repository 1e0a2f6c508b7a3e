// What ft doctor shows.
#pragma once
#include <string>
#include <vector>

#include "app/doctor/examination.h"
#include "app/screen/screen.h"

namespace ft {

struct Examined {  // a machine
  std::string host;
  Findings findings;
  std::vector<Reached> reached;  // the others
};

Json doctor_json(const std::vector<Examined>&);
void show_doctor(Screen&, const std::vector<Examined>&);
// The exit code of the first bad finding; advice does not count.
Exit exit_of(const std::vector<Examined>&);

}  // namespace ft
