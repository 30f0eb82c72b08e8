from kernelblaster.cli.main import main

main()
