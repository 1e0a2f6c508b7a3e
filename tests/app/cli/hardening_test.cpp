// The program as the linker made it: at a random address, no page writable and executable, tables of
// addresses read-only from the start.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/files/file.h"

namespace ft {
namespace {

class Program {
 public:
  Program() : bytes_(read_file(FT_PROGRAM_DIR "/ft", std::int64_t{1} << 32)), header_(at<Elf64_Ehdr>(0)) {}

  Elf64_Half type() const { return header_.e_type; }
  std::vector<Elf64_Phdr> segments() const {
    std::vector<Elf64_Phdr> all;
    for (int i = 0; i < header_.e_phnum; ++i)
      all.push_back(at<Elf64_Phdr>(header_.e_phoff + static_cast<std::size_t>(i) * sizeof(Elf64_Phdr)));
    return all;
  }
  // Returns the values of a tag of the dynamic section, joined by or.
  Elf64_Xword dynamic(Elf64_Sxword tag) const {
    Elf64_Xword all = 0;
    for (const Elf64_Phdr& s : segments())
      for (std::size_t i = 0; s.p_type == PT_DYNAMIC && i < s.p_filesz; i += sizeof(Elf64_Dyn))
        if (const auto entry = at<Elf64_Dyn>(s.p_offset + i); entry.d_tag == tag) all |= entry.d_un.d_val;
    return all;
  }

 private:
  template <class T>
  T at(std::size_t offset) const {
    T value{};
    std::memcpy(&value, bytes_.substr(offset, sizeof value).data(), sizeof value);
    return value;
  }

  std::string bytes_;
  Elf64_Ehdr header_;
};

TEST(Hardening, OfTheProgram) {
  const Program program;
  EXPECT_EQ(program.type(), ET_DYN);  // position-independent
  bool stack = false, relro = false;
  for (const Elf64_Phdr& s : program.segments()) {
    EXPECT_FALSE((s.p_flags & PF_W) && (s.p_flags & PF_X));
    stack |= s.p_type == PT_GNU_STACK;
    relro |= s.p_type == PT_GNU_RELRO;
  }
  EXPECT_TRUE(stack);
  EXPECT_TRUE(relro);
  EXPECT_TRUE((program.dynamic(DT_FLAGS) & DF_BIND_NOW) || (program.dynamic(DT_FLAGS_1) & DF_1_NOW));
}

}  // namespace
}  // namespace ft
