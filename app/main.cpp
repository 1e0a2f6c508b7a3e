// The program starts here.
#include "app/commands/command_line.h"

int main(int argc, char** argv) { return ft::run_command_line({argv + 1, argv + argc}); }
