// The program starts here.
#include "app/cli/command_line.h"

int main(int argc, char** argv) { return ft::run_command_line({argv + 1, argv + argc}); }
