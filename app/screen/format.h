// Formats numbers for people: 1,234,567; 6.74 B; 12.6 GiB; 19.8k tok/s; 3m12s. All commands use it, so that
// the same quantity looks the same everywhere. Files for programs never use it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace ft::show {

std::string count(std::int64_t n);                            // 1,234,567
std::string quantity(double n);                               // 6.74 B, 40.0 M; below a million as count()
std::string plural(std::int64_t n, const std::string& noun);  // 1 sample, 7,473 samples
std::string digits(double x, int significant = 3);            // 0.871, 12.3, 1,430, 3.1e-07; never "-0"
std::string number(double x);                                 // 32, 0.5: integers as count()
std::string fixed(double x, int decimals);                    // 12.60
std::string loss(double x);                      // 1.412, 0.644, 10.83, 0.0312: constant width in a live line
std::string rate(double x);                      // 1.9e-04: learning rates
std::string percent(double part, double whole);  // 0.59 %, 41 %, 100 %; "-" when whole is not positive
std::string file_size(std::int64_t bytes);       // 80.0 MB: decimal, as file managers show it
std::string speed(double tokens_per_second);     // 19.8k tok/s, 415 tok/s
std::string duration(double seconds);            // 0.9 s, 41 s, 3m12s, 1h04m, 2d03h

// Returns a text on one line: line breaks as \n, other control characters as \x07; cuts a long text.
std::string one_line(std::string_view text);

// Returns a path relative to the working folder if that is shorter, else unchanged.
std::string path(const std::filesystem::path& path);

// The unit for all parts of a sum of memory: GiB from 1 GiB up, MiB from 0.1 MiB up, else KiB.
struct MemoryUnit {
  double bytes;      // bytes of one unit
  const char* name;  // GiB
  int decimals;      // chosen so that the sum has at least three digits
};
MemoryUnit memory_unit(std::int64_t total);
std::string memory(std::int64_t bytes, const MemoryUnit& unit);  // 12.6, without the unit
std::string memory(std::int64_t bytes);                          // 12.6 GiB

// Returns the columns of a text on a terminal: its code points. East Asian wide characters count twice;
// combining characters and escape sequences of colour do not count.
std::int64_t columns(const std::string& text);
// Returns the text, cut to at most `width` columns between code points, with "..." for the rest.
std::string fit(const std::string& text, std::int64_t width);

}  // namespace ft::show
