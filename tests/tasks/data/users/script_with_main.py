import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    net = Net()
    for _ in range(arguments.steps):
        net(torch.randn(32, 64)).mean().backward()


if __name__ == "__main__":
    main()
