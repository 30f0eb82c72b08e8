import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8192
image_size = 32
channels1 = 6
channels2 = 16
hidden1 = 120
hidden2 = 84
classes = 10
SMALL = {
    "batch": 3,
    "image_size": 20,
    "channels1": 3,
    "channels2": 7,
    "hidden1": 41,
    "hidden2": 23,
    "classes": 9,
}


class Model(nn.Module):
    """Two 5 by 5 convolutions with ReLU and 2 by 2 maximum, then three linear layers."""

    def __init__(self, image_size, channels1, channels2, hidden1, hidden2, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels1, kernel_size=5)
        self.conv2 = nn.Conv2d(channels1, channels2, kernel_size=5)
        side = ((image_size - 4) // 2 - 4) // 2
        self.fc1 = nn.Linear(channels2 * side * side, hidden1)
        self.fc2 = nn.Linear(hidden1, hidden2)
        self.fc3 = nn.Linear(hidden2, classes)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)


def get_inputs():
    return [torch.randn(batch, 1, image_size, image_size)]


def get_init_inputs():
    return [image_size, channels1, channels2, hidden1, hidden2, classes]
