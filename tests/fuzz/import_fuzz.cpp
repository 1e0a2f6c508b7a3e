// libFuzzer: any bytes as a configuration of another program; after a zero byte, lines as the words of its
// command line, and after another one the file that the word f.yml names. They give a run.json with a verdict
// on each key, or an error.
#include "app/translate/answer.h"
#include "app/translate/list.h"
#include "app/translate/reader.h"
#include "tests/fuzz/input.h"

namespace {

using ft::translate::Draft;

constexpr const char* kName = "f.yml";

std::vector<std::string> words_of(std::string_view text, const std::string& file) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    words.emplace_back(text.substr(0, end));
    if (words.back() == kName) words.back() = file;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// The first byte chooses the program whose file it is; beyond the last one, the keys show it.
void read(std::string_view input, Draft& draft) {
  static const ft::fuzz::MemoryFolder folder;
  const auto first = static_cast<unsigned char>(input[0]);
  input.remove_prefix(1);
  if (first == 0) {
    const std::size_t end = std::min(input.find('\0'), input.size());
    const std::string_view file = input.substr(std::min(end + 1, input.size()));
    ft::translate::read_command(words_of(input.substr(0, end), folder.write(kName, file)), "", draft);
    return;
  }
  const auto& all = ft::translate::kPrograms;
  const std::string name = first <= all.size() ? std::string(all[first - 1U]->name) : "";
  ft::translate::read_file_of(folder.write(kName, input), name, draft);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  ft::fuzz::read_within(size, [&] {
    Draft draft;
    read(ft::fuzz::text_of(data, size), draft);
    ft::translate::choose_device(draft, true);
    ft::translate::tidy(draft);
    ft::translate::drop_refused(draft);
    (void)ft::translate::next_command(draft, ft::translate::kFile);
  });
  return 0;
}
